//! A reliable connected queue pair: its states, and its requests.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_mummy_sys as ffi;

use super::device::{Completions, Device, Gid, Port};
use super::message::Endpoint;
use crate::{Error, Result};

/// The number of times that a request is sent again before it fails. For Soft-RoCE, 7 would mean forever.
const RETRIES: u8 = 6;

/// The time for which a request waits for its acknowledgement before it is sent again: 4.096 µs · 2^18, a second. At
/// 14, a virtual machine short of processor time would send again without need. The bootstrap reports the death of a
/// peer sooner.
const TIMEOUT: u8 = 18;

/// The time for which a request waits before it is sent again to a peer without room (12: 0.64 ms). Requests here need
/// no room.
const NOT_READY: u8 = 12;

/// The largest number of routers that a packet may pass.
const HOPS: u8 = 64;

/// The largest number of bytes inside a request.
pub(super) const INLINE: usize = 64;

/// This side of a connection: its port and its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalPort {
    pub(super) port: Port,
    /// `None` on InfiniBand, where LIDs identify peers.
    pub(super) gid: Option<Gid>,
    /// The number of reads and atomics that may be under way as requester.
    pub(super) initiator: u8,
    /// The number of reads and atomics that it answers at a time.
    pub(super) responder: u8,
}

/// A queue pair; destroyed when dropped. After that the device no longer accesses memory of its requests.
pub(super) struct QueuePair {
    pair: NonNull<ffi::ibv_qp>,
    device: Arc<Device>,
    local_port: LocalPort,
    first: u32,
}

// SAFETY: as for `Device`.
unsafe impl Send for QueuePair {}

/// Memory of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    pub(super) address: u64,
    pub(super) key: u32,
}

/// Registered memory of this rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) key: u32,
}

/// An operation of the peer's device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Writes this rank's buffer there.
    Write,
    /// Reads into this rank's buffer.
    Read,
    /// Adds, and returns the old word.
    FetchAdd(u64),
    /// Compares, swaps, and returns the old word.
    CompareAndSwap(u64, u64),
}

impl QueuePair {
    /// Makes a queue pair of `device` with room for `requests`, in the state INIT, through which peers may reach
    /// registered memory.
    pub(super) fn new(
        device: &Arc<Device>,
        local_port: LocalPort,
        queue: &Completions,
        requests: u32,
    ) -> Result<QueuePair> {
        let mut attributes = zeroed::<ffi::ibv_qp_init_attr>();
        attributes.send_cq = queue.queue().as_ptr();
        attributes.recv_cq = queue.queue().as_ptr();
        attributes.cap = ffi::ibv_qp_cap {
            max_send_wr: requests,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: INLINE as u32,
        };
        attributes.qp_type = ffi::ibv_qp_type::IBV_QPT_RC;
        // SAFETY: the domain and the queue live (the caller keeps the queue longer than the pair).
        let pair = unsafe { ffi::ibv_create_qp(device.domain().as_ptr(), &raw mut attributes) };
        let Some(pair) = NonNull::new(pair) else {
            let what = format!("verbs: making a queue pair for {requests} requests on {}", device.name());
            return Err(Error::system(what, std::io::Error::last_os_error()));
        };
        let first = u32::from_le_bytes(random()?) & 0xff_ffff;
        let pair = QueuePair { pair, device: Arc::clone(device), local_port, first };
        let mut attributes = zeroed::<ffi::ibv_qp_attr>();
        attributes.qp_state = ffi::ibv_qp_state::IBV_QPS_INIT;
        attributes.port_num = local_port.port.number;
        attributes.qp_access_flags = (ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ
            | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC)
            .0;
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
            | ffi::ibv_qp_attr_mask::IBV_QP_PORT
            | ffi::ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
        pair.modify(&mut attributes, mask, "INIT")?;
        Ok(pair)
    }

    /// Returns the data that the peer needs to connect to the pair.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint {
            // SAFETY: the pair lives.
            number: unsafe { self.pair.as_ref().qp_num },
            first: self.first,
            lid: self.local_port.port.lid,
            gid: self.local_port.gid.map_or([0; 16], |gid| gid.bytes),
            mtu: u8::try_from(self.local_port.port.mtu).unwrap_or(0),
            initiator: self.local_port.initiator,
            responder: self.local_port.responder,
        }
    }

    /// Connects to `peer`: from INIT through ready to receive to ready to send.
    pub(super) fn connect(&self, peer: &Endpoint) -> Result<()> {
        let mut attributes = zeroed::<ffi::ibv_qp_attr>();
        attributes.qp_state = ffi::ibv_qp_state::IBV_QPS_RTR;
        attributes.path_mtu = self.local_port.port.mtu.min(peer.mtu.into());
        attributes.dest_qp_num = peer.number;
        attributes.rq_psn = peer.first;
        attributes.max_dest_rd_atomic = peer.initiator.min(self.local_port.responder);
        attributes.min_rnr_timer = NOT_READY;
        attributes.ah_attr.port_num = self.local_port.port.number;
        attributes.ah_attr.dlid = peer.lid;
        if let Some(gid) = self.local_port.gid {
            attributes.ah_attr.is_global = 1;
            attributes.ah_attr.grh.dgid = ffi::ibv_gid { raw: peer.gid };
            attributes.ah_attr.grh.sgid_index = gid.index;
            attributes.ah_attr.grh.hop_limit = HOPS;
        }
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_AV
            | ffi::ibv_qp_attr_mask::IBV_QP_PATH_MTU
            | ffi::ibv_qp_attr_mask::IBV_QP_DEST_QPN
            | ffi::ibv_qp_attr_mask::IBV_QP_RQ_PSN
            | ffi::ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | ffi::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(&mut attributes, mask, "ready to receive")?;
        let mut attributes = zeroed::<ffi::ibv_qp_attr>();
        attributes.qp_state = ffi::ibv_qp_state::IBV_QPS_RTS;
        attributes.timeout = TIMEOUT;
        attributes.retry_cnt = RETRIES;
        attributes.rnr_retry = RETRIES;
        attributes.sq_psn = self.first;
        attributes.max_rd_atomic = peer.responder.min(self.local_port.initiator);
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE
            | ffi::ibv_qp_attr_mask::IBV_QP_TIMEOUT
            | ffi::ibv_qp_attr_mask::IBV_QP_RETRY_CNT
            | ffi::ibv_qp_attr_mask::IBV_QP_RNR_RETRY
            | ffi::ibv_qp_attr_mask::IBV_QP_SQ_PSN
            | ffi::ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut attributes, mask, "ready to send")
    }

    fn modify(&self, attributes: &mut ffi::ibv_qp_attr, mask: ffi::ibv_qp_attr_mask, state: &str) -> Result<()> {
        // SAFETY: the pair lives, and the attributes of the mask are set.
        match unsafe { ffi::ibv_modify_qp(self.pair.as_ptr(), attributes, mask.0.cast_signed()) } {
            0 => Ok(()),
            number => Err(Error::system(
                format!("verbs: making a queue pair of {} {state}", self.device.name()),
                std::io::Error::from_raw_os_error(number.abs()),
            )),
        }
    }

    /// Posts `work` on memory of the peer with a buffer of this rank, as request `number`. If `signalled` is true, it asks
    /// for a completion.
    ///
    /// # Safety
    ///
    /// The buffer is valid for the accesses of `work` until the request is complete or the pair is dropped.
    #[inline]
    pub(super) unsafe fn post(
        &self,
        work: Work,
        buffer: Buffer,
        remote: Remote,
        number: u64,
        signalled: bool,
    ) -> Result<()> {
        let rdma = ffi::wr_t { rdma: ffi::rdma_t { remote_addr: remote.address, rkey: remote.key } };
        let atomic = |compare_add, swap| ffi::wr_t {
            atomic: ffi::atomic_t { remote_addr: remote.address, compare_add, swap, rkey: remote.key },
        };
        let (opcode, wr) = match work {
            Work::Write => (ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE, rdma),
            Work::Read => (ffi::ibv_wr_opcode::IBV_WR_RDMA_READ, rdma),
            Work::FetchAdd(value) => (ffi::ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD, atomic(value, 0)),
            Work::CompareAndSwap(expected, desired) => {
                (ffi::ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP, atomic(expected, desired))
            }
        };
        let flags = if signalled { ffi::ibv_send_flags::IBV_SEND_SIGNALED.0 } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { self.send(buffer, opcode, wr, flags, number) }
    }

    /// Writes `bytes`, at most [`INLINE`], which are inside the request.
    #[inline]
    pub(super) fn post_inline(&self, bytes: &[u8], remote: Remote, number: u64, signalled: bool) -> Result<()> {
        assert!(bytes.len() <= INLINE, "{} bytes do not fit into a request", bytes.len());
        let buffer = Buffer { address: bytes.as_ptr() as u64, len: bytes.len() as u32, key: 0 };
        let wr = ffi::wr_t { rdma: ffi::rdma_t { remote_addr: remote.address, rkey: remote.key } };
        let signal = if signalled { ffi::ibv_send_flags::IBV_SEND_SIGNALED.0 } else { 0 };
        let flags = ffi::ibv_send_flags::IBV_SEND_INLINE.0 | signal;
        // SAFETY: an inline request's bytes are read during the call.
        unsafe { self.send(buffer, ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE, wr, flags, number) }
    }

    /// # Safety
    ///
    /// The conditions of [`post`](Self::post).
    #[inline]
    unsafe fn send(&self, buffer: Buffer, opcode: u32, wr: ffi::wr_t, flags: u32, number: u64) -> Result<()> {
        let mut list = ffi::ibv_sge { addr: buffer.address, length: buffer.len, lkey: buffer.key };
        let mut request = zeroed::<ffi::ibv_send_wr>();
        request.wr_id = number;
        request.sg_list = &raw mut list;
        request.num_sge = i32::from(buffer.len > 0);
        request.opcode = opcode;
        request.send_flags = flags;
        request.wr = wr;
        let mut bad = std::ptr::null_mut();
        // SAFETY: the pair lives, the request and its list are read during the call; the buffer is the caller's promise.
        match unsafe { ffi::ibv_post_send(self.pair.as_ptr(), &raw mut request, &raw mut bad) } {
            0 => Ok(()),
            number => Err(Error::system(
                format!("verbs: posting a request to {}", self.device.name()),
                std::io::Error::from_raw_os_error(number.abs()),
            )),
        }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made by the library, and destroyed once.
        unsafe { ffi::ibv_destroy_qp(self.pair.as_ptr()) };
    }
}

/// Makes a zeroed structure of the library, of integers, unions of integers and pointers that may be null.
fn zeroed<T: Plain>() -> T {
    // SAFETY: by the trait's promise.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// # Safety
///
/// All zeros are a value of the type.
unsafe trait Plain {}
// SAFETY: integers, pointers and unions of them.
unsafe impl Plain for ffi::ibv_qp_init_attr {}
// SAFETY: as above.
unsafe impl Plain for ffi::ibv_qp_attr {}
// SAFETY: as above.
unsafe impl Plain for ffi::ibv_send_wr {}

fn random() -> Result<[u8; 4]> {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Error::system("verbs: drawing a random number", error))?;
    Ok(bytes)
}

/// Returns whether a request's status is a fault of this side, its queue pair or its buffers, and not of the peer.
pub(super) fn is_local(status: u32) -> bool {
    matches!(
        status,
        ffi::ibv_wc_status::IBV_WC_LOC_LEN_ERR
            | ffi::ibv_wc_status::IBV_WC_LOC_QP_OP_ERR
            | ffi::ibv_wc_status::IBV_WC_LOC_PROT_ERR
            | ffi::ibv_wc_status::IBV_WC_LOC_ACCESS_ERR
            | ffi::ibv_wc_status::IBV_WC_BAD_RESP_ERR
    )
}
