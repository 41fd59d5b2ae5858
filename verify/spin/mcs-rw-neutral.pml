#include "common.h"
#ifdef M_NOPREP
#define PREP skip
#else
#define PREP FLUSH(me)
#endif
#ifdef M_NONWFLUSH
#define NWFLUSH skip
#else
#define NWFLUSH FLUSH(HOME)
#endif
#ifdef M_WAKEFIRST
#define COUNT_WAKE(n) UNBLOCK(n); count++
#else
#define COUNT_WAKE(n) count++; UNBLOCK(n)
#endif
#ifndef TAG
#define TAG 1
#endif
#ifndef LOOK
#define LOOK 1
#endif
/* id = rank+1 | 16 if writer | 32*seq */
#define RK(id) (((id)&15)-1)
#define WR 16
short tail, next_writer; byte count;
short nxt[NR+NW]; byte unb[NR+NW]; byte st[NR+NW];
inline apply(w,t,v) { if :: w==0 -> nxt[t]=v :: w==1 -> unb[t]=v :: w==2 -> next_writer=v :: w==3 -> st[t]=v fi }
#define UNBLOCK(p) assert((p)!=0); PUT(RK(p),1,1)
#define WAITU unb[me]==1; PUT(me,1,0)
proctype reader(byte me) {
  byte k; short p, n, id, nx; byte o;
  do :: k<KR ->
    id=me+1;
    PREP;
    SWAP(p,tail,id);
    if :: p!=0 && (p&WR) -> PUT(RK(p),0,id); WAITU
       :: p!=0 && !(p&WR) -> CAS(o,st[RK(p)],0,2);
            if :: o==0 -> PUT(RK(p),0,id); WAITU
               :: else -> assert(o==1); 
#ifdef M_LINKFIRST
 PUT(RK(p),0,id); count++
#else
 count++; PUT(RK(p),0,id)
#endif
 fi
       :: p==0 -> count++
    fi;
    p=0;
    FAA(o,st[me],1);
    if :: (o&2) -> nxt[me]!=0; n=nxt[me]; assert(!(n&WR)); COUNT_WAKE(n) :: else fi;
    o=0; n=0;
    ENTER_R; LEAVE_R;
    n=nxt[me];
    if :: n!=0 -> skip
       :: else -> CAS(p,tail,id,0); if :: p!=id -> nxt[me]!=0; n=nxt[me] :: else fi fi;
    p=0;
    nx=n;
    if :: n!=0 && (n&WR) -> PUT(HOME,2,n); NWFLUSH :: else fi;
    FAA(o,count,-1);
    if :: o==1 -> p=next_writer;
        if :: p!=0 && (count==0 || !LOOK) ->
             CAS(n,next_writer,p,0); if :: n==p -> UNBLOCK(p) :: else fi
           :: else fi
      :: else fi;
    if :: nx!=0 -> PUT(me,0,0) :: else fi; nx=0; PUT(me,3,0);
    p=0; n=0; o=0; k++
  :: else -> break od;
  id=0; done++
}
proctype writer(byte me) {
  byte k; short p, n, id;
  do :: k<KW ->
    id=(me+1)|WR|(TAG*32*(k+1));
    PREP;
    SWAP(p,tail,id);
    if :: p!=0 -> PUT(RK(p),0,id); WAITU
       :: else ->
#ifndef NOSHORT
            if :: count==0 -> skip :: else ->
#endif
              PUT(HOME,2,id); FLUSH(HOME);
              if :: count==0 -> CAS(n,next_writer,id,0); if :: n==id -> skip :: else -> assert(n==0); WAITU fi
                 :: else -> WAITU fi
#ifndef NOSHORT
            fi
#endif
    fi;
    p=0; n=0;
    ENTER_W; LEAVE_W;
    n=nxt[me];
    if :: n!=0 -> skip
       :: else -> CAS(p,tail,id,0); if :: p!=id -> nxt[me]!=0; n=nxt[me] :: else fi fi;
    if :: n!=0 -> if :: !(n&WR) -> COUNT_WAKE(n) :: else -> UNBLOCK(n) fi; PUT(me,0,0) :: else fi;
    p=0; n=0; k++
  :: else -> break od;
  id=0; done++
}
#define REST (tail==0 && count==0 && next_writer==0)
