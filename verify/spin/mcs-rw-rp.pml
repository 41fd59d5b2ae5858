#include "common.h"
#ifdef M_NOPREP
#define PREP skip
#else
#define PREP FLUSH(me)
#endif
#ifndef M_WAKEALWAYS
#define M_WAKEALWAYS 0
#endif
#ifndef M_RSTORE
#define M_RSTORE 0
#endif
#ifndef M_WSTORE
#define M_WSTORE 0
#endif
#define WI 1
#define WA 2
#define RC 4
byte r_hd, w_tl, w_hd; short rcnt;
byte nxt[NR+NW], unb[NR+NW];
inline apply(w,t,v) { if :: w==0 -> nxt[t]=v :: w==1 -> unb[t]=v :: w==2 -> w_hd=v fi }
#define UNBLOCK(p) assert((p)!=0); PUT((p)-1,1,1)
#define WAITU unb[me]==1; PUT(me,1,0)
#ifndef M_LOOK2
#define M_LOOK2 0
#endif
inline start(w) {
  ok=0;
#ifdef M_SSTORE
 old=rcnt; if :: old==0 -> rcnt=WA :: else fi;
#else
  CAS(old,rcnt,0,WA);
#endif
  if :: old==0 -> ok=1 :: else ->
#ifdef M_WIFIRST
    FAA(old,rcnt,WI); PUT(HOME,2,w); FLUSH(HOME);
#else
    PUT(HOME,2,w); 
#ifndef M_NOFLUSH
 FLUSH(HOME);
#endif
    FAA(old,rcnt,WI); assert(!(old&(WI|WA)));
#endif
    if :: old==0 -> if :: M_WSTORE -> rcnt=WA; old=WI :: else -> CAS(old,rcnt,WI,WA) fi;
         if :: old==WI -> PUT(HOME,2,0); FLUSH(HOME); ok=1 :: else fi
       :: else fi
  fi
}
proctype reader(byte me) {
  byte k, x, h; short old;
  do :: k<KR ->
    FAA(old,rcnt,RC);
    if :: old&WA ->
      PREP;
      SWAP(x,r_hd,me+1);
#ifdef M_LATERESET
 PUT(me,1,0);
#endif
      old=rcnt;
      if :: !(old&WA) && !M_LOOK2 -> SWAP(h,r_hd,0); if :: h!=0 -> UNBLOCK(h) :: else fi
         :: else fi;
      WAITU;
      #ifndef M_NOCASC
 if :: x!=0 -> UNBLOCK(x) :: else fi
#endif
    :: else fi;
    h=0; x=0; old=0;
    ENTER_R; LEAVE_R;
    FAA(old,rcnt,-RC);
    if :: old==RC+WI ->
 if :: M_RSTORE -> rcnt=WA; old=WI :: else -> CAS(old,rcnt,WI,WA) fi;
        if :: old==WI -> SWAP(x,w_hd,0); UNBLOCK(x) :: else fi
      :: else fi;
    x=0; old=0; k++
  :: else -> break od;
  done++
}
proctype writer(byte me) {
  byte k, x, h, ok; short old;
  do :: k<KW ->
    PREP;
    SWAP(x,w_tl,me+1);
    if :: x!=0 -> PUT(x-1,0,me+1); WAITU
       :: else -> start(me+1); if :: ok -> skip :: else -> WAITU fi fi;
    x=0; old=0; ok=0;
    ENTER_W; LEAVE_W;
#ifdef M_WAKEFIRST
    SWAP(h,r_hd,0); if :: h!=0 -> UNBLOCK(h) :: else fi; FAA(old,rcnt,-WA);
#else
    FAA(old,rcnt,-WA); assert(old&WA); assert(!(old&WI));
    if :: old!=WA -> SWAP(h,r_hd,0); if :: h!=0 -> UNBLOCK(h) :: else fi :: else fi;
#endif
    x=nxt[me];
    if :: x!=0 -> skip
       :: else -> CAS(h,w_tl,me+1,0); if :: h!=me+1 -> nxt[me]!=0; x=nxt[me] :: else fi fi;
    h=0;
    if :: x!=0 -> start(x); if :: ok || M_WAKEALWAYS -> UNBLOCK(x) :: else fi;
#ifndef M_STALE
 PUT(me,0,0)
#endif
 :: else fi;
    x=0; h=0; old=0; ok=0; k++
  :: else -> break od;
  done++
}
#define REST (rcnt==0 && r_hd==0 && w_tl==0 && w_hd==0)
