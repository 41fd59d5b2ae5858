//! The time of a bare RDMA operation: a loop of the library's own calls that posts one operation and polls for its
//! completion.
//!
//! `cargo run --release -p rmalab-atomics --features verbs --example verbs_bare -- --times 1000`
//!
//! It measures a write until its completion, which perftest does not do. `ib_write_lat` is a ping-pong, half of which ends
//! when the bytes are there, and `ib_write_bw` prints means. One process connects two queue pairs of one device to each
//! other. Each operation has a line with its median: `bare write MICROSECONDS` and `bare fetch_add MICROSECONDS`. The second
//! should agree with perftest's `ib_atomic_lat`. The device is `RMALAB_DEVICE`, or the first one; the number of its address
//! is `RMALAB_GID_INDEX`, or 1.

use std::error::Error;
use std::mem::{MaybeUninit, zeroed};
use std::time::Instant;

use rdma_mummy_sys as ffi;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Objects of the library, which are not freed before the process ends.
struct Bare {
    pair: *mut ffi::ibv_qp,
    queue: *mut ffi::ibv_cq,
    /// Registered memory: the target word, and the local word.
    words: *mut [u64; 2],
    local: u32,
    remote: u32,
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let times = match (args.next().as_deref(), args.next(), args.next()) {
        (None, ..) => 1000,
        (Some("--times"), Some(times), None) => times.parse().map_err(|_| "--times: not a number")?,
        _ => return Err("the option is --times N".into()),
    };
    let bare = Bare::open()?;
    for (name, opcode, flags) in [
        ("write", ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE, ffi::ibv_send_flags::IBV_SEND_INLINE.0),
        ("fetch_add", ffi::ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD, 0),
    ] {
        for _ in 0..(times / 10).max(2) {
            bare.operate(opcode, flags)?;
        }
        let mut each = Vec::with_capacity(times);
        for _ in 0..times {
            let start = Instant::now();
            bare.operate(opcode, flags)?;
            each.push(start.elapsed());
        }
        each.sort_unstable();
        println!("bare {name} {:.3}", each[times / 2].as_nanos() as f64 / 1000.0);
    }
    Ok(())
}

impl Bare {
    /// Posts one operation and waits for its completion.
    #[inline]
    fn operate(&self, opcode: u32, flags: u32) -> Result<()> {
        // SAFETY: pair, queue and words live as long as the process, and only this thread uses them; the structures are
        // integers, pointers and unions of them, for which zero is a value.
        unsafe {
            let remote_addr = self.words as u64;
            let mut list = ffi::ibv_sge { addr: remote_addr + 8, length: 8, lkey: self.local };
            let mut request = zeroed::<ffi::ibv_send_wr>();
            request.sg_list = &raw mut list;
            request.num_sge = 1;
            request.opcode = opcode;
            request.send_flags = flags | ffi::ibv_send_flags::IBV_SEND_SIGNALED.0;
            request.wr = if opcode == ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE {
                ffi::wr_t { rdma: ffi::rdma_t { remote_addr, rkey: self.remote } }
            } else {
                ffi::wr_t { atomic: ffi::atomic_t { remote_addr, compare_add: 1, swap: 0, rkey: self.remote } }
            };
            let answer = ffi::ibv_post_send(self.pair, &raw mut request, &mut std::ptr::null_mut());
            if answer != 0 {
                return Err(format!("posting: error {answer}").into());
            }
            let mut done = MaybeUninit::<ffi::ibv_wc>::uninit();
            loop {
                match ffi::ibv_poll_cq(self.queue, 1, done.as_mut_ptr()) {
                    0 => {}
                    1 if (*done.as_ptr()).status == ffi::ibv_wc_status::IBV_WC_SUCCESS => return Ok(()),
                    1 => return Err(format!("an operation failed: status {}", (*done.as_ptr()).status).into()),
                    answer => return Err(format!("polling: {answer}").into()),
                }
            }
        }
    }

    fn open() -> Result<Bare> {
        let wanted = std::env::var("RMALAB_DEVICE").ok();
        let gid_index: u8 = std::env::var("RMALAB_GID_INDEX").map_or(Ok(1), |text| text.parse())?;
        // SAFETY: each call gets objects of earlier calls, and nothing is freed.
        unsafe {
            let context = open_device(wanted.as_deref())?;
            let domain = made(ffi::ibv_alloc_pd(context), "a protection domain")?;
            let words = Box::into_raw(Box::new([0u64; 2]));
            let access = ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
                | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
                | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC;
            let region = ffi::ibv_reg_mr(domain, words.cast(), size_of_val(&*words), access.0.cast_signed());
            let region = made(region, "a region")?;
            let none = std::ptr::null_mut();
            let queue = made(ffi::ibv_create_cq(context, 16, none, none.cast(), 0), "a completion queue")?;
            let mut port = zeroed::<ffi::ibv_port_attr>();
            done(ffi::ibv_query_port(context, 1, &raw mut port), "asking for the state of port 1")?;
            let mut gid = zeroed::<ffi::ibv_gid_entry>();
            let asked = ffi::ibv_query_gid_ex(context, 1, gid_index.into(), &raw mut gid, 0);
            done(asked, "asking for its address (RMALAB_GID_INDEX)")?;
            let mut pairs = [std::ptr::null_mut(); 2];
            for pair in &mut pairs {
                let mut attributes = zeroed::<ffi::ibv_qp_init_attr>();
                (attributes.send_cq, attributes.recv_cq) = (queue, queue);
                attributes.cap = ffi::ibv_qp_cap {
                    max_send_wr: 16,
                    max_recv_wr: 1,
                    max_send_sge: 1,
                    max_recv_sge: 1,
                    max_inline_data: 8,
                };
                attributes.qp_type = ffi::ibv_qp_type::IBV_QPT_RC;
                *pair = made(ffi::ibv_create_qp(domain, &raw mut attributes), "a queue pair")?;
            }
            for (pair, peer) in [(pairs[0], pairs[1]), (pairs[1], pairs[0])] {
                connect(pair, (*peer).qp_num, access.0, &port, gid_index, gid.gid)?;
            }
            Ok(Bare { pair: pairs[0], queue, words, local: (*region).lkey, remote: (*region).rkey })
        }
    }
}

fn open_device(wanted: Option<&str>) -> Result<*mut ffi::ibv_context> {
    // SAFETY: the list has `count` entries, and is not freed.
    unsafe {
        let mut count = 0;
        let list = ffi::ibv_get_device_list(&raw mut count);
        for index in 0..usize::try_from(count).unwrap_or(0) {
            let device = list.add(index).read();
            let name = std::ffi::CStr::from_ptr(ffi::ibv_get_device_name(device)).to_str()?;
            if wanted.is_none_or(|wanted| wanted == name) {
                return made(ffi::ibv_open_device(device), "a context");
            }
        }
    }
    Err("no RDMA device of this name (RMALAB_DEVICE)".into())
}

/// # Safety
///
/// The pair lives and is new.
unsafe fn connect(
    pair: *mut ffi::ibv_qp,
    peer: u32,
    access: u32,
    port: &ffi::ibv_port_attr,
    gid_index: u8,
    gid: ffi::ibv_gid,
) -> Result<()> {
    use ffi::ibv_qp_attr_mask as mask;
    // SAFETY: the attributes of each mask are set; they are integers and unions of them.
    unsafe {
        let mut attributes = zeroed::<ffi::ibv_qp_attr>();
        let modify = |attributes: &mut ffi::ibv_qp_attr, named: mask, state| {
            attributes.qp_state = state;
            let named = mask::IBV_QP_STATE | named;
            done(ffi::ibv_modify_qp(pair, attributes, named.0.cast_signed()), "changing a queue pair's state")
        };
        attributes.port_num = 1;
        attributes.qp_access_flags = access;
        let init = mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS;
        modify(&mut attributes, init, ffi::ibv_qp_state::IBV_QPS_INIT)?;
        attributes.path_mtu = port.active_mtu;
        attributes.dest_qp_num = peer;
        attributes.max_dest_rd_atomic = 1;
        attributes.min_rnr_timer = 12;
        attributes.ah_attr.port_num = 1;
        attributes.ah_attr.dlid = port.lid;
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.grh.dgid = gid;
        attributes.ah_attr.grh.sgid_index = gid_index;
        attributes.ah_attr.grh.hop_limit = 64;
        let receive = mask::IBV_QP_AV
            | mask::IBV_QP_PATH_MTU
            | mask::IBV_QP_DEST_QPN
            | mask::IBV_QP_RQ_PSN
            | mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | mask::IBV_QP_MIN_RNR_TIMER;
        modify(&mut attributes, receive, ffi::ibv_qp_state::IBV_QPS_RTR)?;
        (attributes.timeout, attributes.retry_cnt, attributes.rnr_retry) = (18, 6, 6);
        attributes.max_rd_atomic = 1;
        let send = mask::IBV_QP_TIMEOUT
            | mask::IBV_QP_RETRY_CNT
            | mask::IBV_QP_RNR_RETRY
            | mask::IBV_QP_SQ_PSN
            | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        modify(&mut attributes, send, ffi::ibv_qp_state::IBV_QPS_RTS)
    }
}

fn made<T>(what: *mut T, name: &str) -> Result<*mut T> {
    if what.is_null() { Err(format!("making {name}: {}", std::io::Error::last_os_error()).into()) } else { Ok(what) }
}

fn done(answer: i32, what: &str) -> Result<()> {
    if answer == 0 { Ok(()) } else { Err(format!("{what}: error {answer}").into()) }
}
