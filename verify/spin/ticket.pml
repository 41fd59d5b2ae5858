#include "common.h"
#define M 4
#define NX(l) (((l)/M)%M)
#define SV(l) ((l)%M)
#define MASK(l) ((l) & (M*M-1))
short lk; byte nxt[NR+NW], unb[NR+NW];
inline apply(w,t,v) { skip }
proctype reader(byte me) { skip }
proctype writer(byte me) {
  byte k, t, n; short o, e;
  do :: k<KW ->
    if :: d_step { o=lk; lk=MASK(lk+M) }; t=NX(o); n=(t+1)%M;
          if :: SV(o)!=t -> d_step { SV(lk)==t -> n=NX(lk) } :: else fi;
       :: CAS(o,lk,0,M); if :: o!=0 -> goto next :: else -> t=0; n=1 fi
    fi; o=0;
    ENTER_W; LEAVE_W;
    e=((t+1)%M)*M+t;
    if :: n==(t+1)%M -> CAS(o,lk,e,0); if :: o==e -> goto next :: else fi :: else fi;
    assert(SV(lk)==t);
    d_step { if :: t==M-1 -> lk=MASK(lk+1-M+M*M) :: else -> lk=MASK(lk+1) fi };
next: o=0; t=0; n=0; e=0; k++
  :: else -> break od; done++ }
#define REST (lk==0)
