#include "common.h"
byte tail; byte nxt[NR+NW], unb[NR+NW];
inline apply(w,t,v) { if :: w==0 -> nxt[t]=v :: w==1 -> unb[t]=v fi }
proctype reader(byte me) { skip }
proctype writer(byte me) {
  byte k, x;
  do :: k<KW ->
    FLUSH(me);
    SWAP(x,tail,me+1);
    if :: x!=0 -> PUT(x-1,0,me+1); unb[me]==1; PUT(me,1,0) :: else fi;
    x=0;
    ENTER_W; LEAVE_W;
    x=nxt[me];
    if :: x!=0 -> skip
       :: else -> CAS(x,tail,me+1,0); if :: x!=me+1 -> nxt[me]!=0; x=nxt[me] :: else x=0 fi fi;
    if :: x!=0 -> PUT(x-1,1,1); PUT(me,0,0) :: else fi;
    x=0; k++
  :: else -> break od;
  done++
}
#define REST (tail==0)
