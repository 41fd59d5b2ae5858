#define N (NR+NW)
#define T (N+1)
#define HOME N
#define ch(t) net[me*T+(t)]
#ifdef LATE
chan net[(NR+NW)*(NR+NW+1)] = [3] of {byte, byte, short};
#define PUT(t,w,v) ch(t)!w,(t),(v)
#define FLUSH(t) empty(ch(t))
#else
#define PUT(t,w,v) d_step { apply(w,t,v) }
#define FLUSH(t) skip
#endif
#define FAA(o,x,v) d_step { o = x; x = x + (v) }
#define SWAP(o,x,v) d_step { o = x; x = (v) }
#define CAS(o,x,e,v) d_step { o = x; if :: x == (e) -> x = (v) :: else -> skip fi }
byte nrd, nwr, done;
#define ENTER_R d_step { assert(nwr==0); nrd++ }
#define LEAVE_R nrd--
#define ENTER_W d_step { assert(nwr==0 && nrd==0); nwr++ }
#define LEAVE_W nwr--
