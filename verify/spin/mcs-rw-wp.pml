#include "common.h"
#ifdef M_NOPREP
#define PREP skip
#else
#define PREP FLUSH(me)
#endif
#ifndef M_NOW2
#define M_NOW2 0
#endif
#ifndef M_NORF
#define M_NORF 0
#endif
#define W1 1
#define W2 2
#define RF 4
#define RC 8
byte r_hd, w_tl, w_hd; short state;
byte nxt[NR+NW], unb[NR+NW];
inline apply(w,t,v) { if :: w==0 -> nxt[t]=v :: w==1 -> unb[t]=v :: w==2 -> w_hd=v fi }
#define UNBLOCK(p) assert((p)!=0); PUT((p)-1,1,1)
#define WAITU unb[me]==1; PUT(me,1,0)
inline unblock_readers() {
  FAA(old,state,RC-RF); assert(old & RF);
  if :: (old&(W1|W2))==W1 && !M_NOW2 -> FAA(old,state,W2); assert(!(old&W2)); assert(old>=RC) :: else fi;
  SWAP(h,r_hd,0); if :: h!=me+1 -> UNBLOCK(h) :: else fi
}
inline set_next_writer(w) {
  ok=0;
#ifndef NOSHORT
  CAS(old,state,0,W1|W2);
  if :: old==0 -> ok=1 :: else ->
#endif
    PUT(HOME,2,w); FLUSH(HOME);
    FAA(old,state,W1); assert(!(old&(W1|W2)));
    if :: !(old&RF) || M_NORF ->
         FAA(old,state,W2); 
         if :: (old>>3)==0 -> PUT(HOME,2,0); FLUSH(HOME); ok=1 :: else fi
       :: else fi
#ifndef NOSHORT
  fi
#endif
}
proctype reader(byte me) {
  byte k, x, h; short old;
  do :: k<KR ->
    PREP;
    SWAP(x,r_hd,me+1);
    h=0;
    if :: x==0 -> FAA(old,state,RF); assert(!(old&RF));
          if :: !(old&(W1|W2)) -> unblock_readers()
             :: else fi
       :: else fi;
    if :: h==me+1 -> skip :: else -> WAITU fi;
    #ifdef M_WAKEFIRST
    if :: x!=0 -> UNBLOCK(x); FAA(old,state,RC) :: else fi;
#else
    if :: x!=0 -> FAA(old,state,RC); assert(old>=RC); UNBLOCK(x) :: else fi;
#endif
    h=0; x=0; old=0;
    ENTER_R; LEAVE_R;
    FAA(old,state,-RC);
    if :: (old&W2) && (old>>3)==1 -> SWAP(x,w_hd,0); UNBLOCK(x) :: else fi;
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
       :: else -> set_next_writer(me+1); if :: ok -> skip :: else -> WAITU fi fi;
    x=0; old=0; ok=0;
    ENTER_W; LEAVE_W;
    x=nxt[me];
    if :: x!=0 -> UNBLOCK(x); PUT(me,0,0)
       :: else -> FAA(old,state,-(W1|W2)); assert((old&(W1|W2))==(W1|W2)); assert((old>>3)==0);
          if :: old&RF -> unblock_readers() :: else fi;
          CAS(x,w_tl,me+1,0);
          if :: x!=me+1 -> nxt[me]!=0; x=nxt[me]; set_next_writer(x);
                if :: ok -> UNBLOCK(x) :: else fi; PUT(me,0,0)
             :: else fi
    fi;
    x=0; h=0; old=0; ok=0; k++
  :: else -> break od;
  done++
}
#define REST (state==0 && r_hd==0 && w_tl==0 && w_hd==0)
