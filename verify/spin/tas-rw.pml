#include "common.h"
short lk; byte nxt[NR+NW], unb[NR+NW];
inline apply(w,t,v) { skip }
proctype reader(byte me) {
  byte k; short o;
  do :: k<KR ->
    if :: FAA(o,lk,2); if :: o&1 -> !(lk&1) :: else fi; ENTER_R; LEAVE_R; FAA(o,lk,-2)
       :: k>0 || TRY -> FAA(o,lk,2); if :: o&1 -> FAA(o,lk,-2) :: else -> ENTER_R; LEAVE_R; FAA(o,lk,-2) fi
    fi; o=0; k++
  :: else -> break od; done++ }
proctype writer(byte me) {
  byte k; short o;
  do :: k<KW -> d_step { lk==0 -> lk=1 }; ENTER_W; LEAVE_W; FAA(o,lk,-1); o=0; k++
  :: else -> break od; done++ }
#define REST (lk==0)
