# Shared by scripts/soft-roce and scripts/soft-roce-pair: options, packages, the kernel, machines. Sourced, not run.
# shellcheck shell=bash
#
# A machine is QEMU without hardware help (TCG), the kernel and initramfs of scripts/vm/build-image, the host's / as its root (9p, read
# only, writes go to memory) and one folder of the host, its control folder, through which words, output and status pass; scripts/vm/guest
# lists its files. Machines share nothing but the image in the cache.

me=$(basename "$0")
parts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cpus=2 memory=2048 timeout=300 verbose='' memlock=''
extra_environment=() shares=()
machine_pids=() work=''
taken=0 image='' status=125 output_label=''
machine_packages=(qemu-system-x86 busybox-static cpio kmod xz-utils zstd iproute2 util-linux ibverbs-providers libibverbs1)

# The script's own failures: 125, as of env and timeout, so that the command's status is not mistaken for them.
fail() {
    echo "$me: $*" >&2
    exit 125
}
say() { [ -z "$verbose" ] || echo "$me: $*" >&2; }

shared_options() {
    cat <<'OPTIONS'
      --cpus N         processors of a machine (2)
      --memory MIB     memory of a machine; what it writes to files counts (2048)
      --timeout TIME   limit of the whole run, as timeout(1) has it: 90, 5m (300)
      --env NAME       pass this environment variable too; NAME=VALUE sets it. PATH, HOME, LANG, TERM, TMPDIR, LD_LIBRARY_PATH,
                       OUT_DIR, CARGO*, RUST*, RMALAB_*, IBV_* and RDMAV_* pass anyway
      --share DIR      what is written into this folder stays; all else that is written is gone with the machine. Repeatable
      --memlock KIB    limit of locked memory, which registration counts against (none)
      --verbose        say what is done and how long it took
      --help           this
OPTIONS
}

# Takes one of the shared options from "$@" and sets `taken` to how many words it had; 0 when the first word is no option, or `--`.
shared_option() {
    taken=2
    case $1 in
    --cpus) need_number "$@" && cpus=$2 ;;
    --memory)
        need_number "$@" && memory=$2
        [ "$memory" -ge 512 ] || fail "--memory: $memory MiB are too few for the machine itself; give 512 or more"
        ;;
    --memlock) need_number "$@" && memlock=$2 ;;
    --timeout)
        [[ ${2-} =~ ^[0-9]+(\.[0-9]+)?[smh]?$ ]] || fail "--timeout: '${2-}' is no time; give seconds, or 90s, 5m"
        timeout=$2
        ;;
    --env)
        [[ ${2-} =~ ^[A-Za-z_] ]] || fail "--env: '${2-}' is no name of a variable; give NAME or NAME=VALUE"
        extra_environment+=("$2")
        ;;
    --share)
        [ -d "${2-}" ] || fail "--share: '${2-}' is no folder; make it first"
        [ -w "$2" ] || fail "--share: '$2' cannot be written to by $(id -un)"
        shares+=("$(realpath "$2")")
        ;;
    --verbose) verbose=1 taken=1 ;;
    -- | [!-]* | '') taken=0 ;;
    *) fail "no option $1; see --help" ;;
    esac
}

need_number() { [[ ${2-} =~ ^[1-9][0-9]{0,8}$ ]] || fail "$1: '${2-}' is no number from 1 on"; }

# need_packages NAME...: that these packages are installed; root installs what is missing.
need_packages() {
    command -v dpkg-query >/dev/null || fail "this host has no dpkg: the machine is built of Debian's packages; run it on Debian 12 or later, or in a container of it"
    [ "$(uname -m)" = x86_64 ] || fail "this host is $(uname -m): only x86_64 is known here"
    local missing=() package log
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || fail "missing packages; run as root: apt-get install ${missing[*]}"
    echo "$me: installing ${missing[*]}" >&2
    log=$({ apt-get update -qq || true; DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}"; } 2>&1) ||
        fail "apt-get install ${missing[*]} failed:"$'\n'"$log"
}

# need_image: sets `image` to the cached folder of kernel and initramfs; makes it when it is not there. Of several runs one makes it, and
# it appears complete or not at all.
need_image() {
    local cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/rmalab/soft-roce
    image=$cache/$(sha256sum "$parts/build-image" | cut -c1-16)
    [ -d "$image" ] && return
    mkdir -p "$cache" || fail "$cache: the cache cannot be made; set XDG_CACHE_HOME to a folder that can be written to"
    (
        flock 9
        [ -d "$image" ] && exit
        new=$(mktemp -d "$cache/new.XXXXXX")
        trap 'rm -rf "$new"' EXIT
        "$parts/build-image" "$new" 9>&- && mv -T "$new" "$image"
    ) 9>"$cache/lock" || fail "no kernel and initramfs in $cache: see above"
}

# Everything of this run goes with it: the machines, and the folder $work.
start_work() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/soft-roce.XXXXXX") || fail "no folder for the run in ${TMPDIR:-/tmp}"
    trap end_work EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}
end_work() {
    trap '' HUP INT TERM
    [ ${#machine_pids[@]} = 0 ] || kill "${machine_pids[@]}" 2>/dev/null || true # some may have ended
    wait
    rm -rf "$work"
}

# write_control DIR SETTINGS -- COMMAND...: the control folder of a machine. SETTINGS are NAME=VALUE.
write_control() {
    local control=$1 name
    mkdir "$control"
    shift
    while [ "$1" != -- ]; do
        printf '%q\n' "$1"
        shift
    done >"$control/settings"
    shift
    printf 'memlock=%q\nfolder=%q\n' "$memlock" "$PWD" >>"$control/settings"
    printf '%s\0' "$@" >"$control/command"
    {
        printf '%s\0' HOME=/root
        env -0 | grep -zE '^(PATH|HOME|LANG|TERM|TMPDIR|LD_LIBRARY_PATH|OUT_DIR|(CARGO|RUST|RMALAB_|IBV_|RDMAV_)[^=]*)=' || true
        for name in "${extra_environment[@]}"; do
            case $name in
            *=*) printf '%s\0' "$name" ;;
            *) env -0 | grep -z "^$name=" || true ;;
            esac
        done
    } >"$control/environment"
    { [ ${#shares[@]} = 0 ] || printf '%s\0' "${shares[@]}"; } >"$control/shares"
    touch "$control"/{stdout,stderr,console}
    cp "$parts/guest" "$control/"
}

# no_timer_check: on a busy host the emulated timer may fail the kernel's check of it, and the kernel stops there.
# tsc=reliable: the emulated counters of all processors are one clock of the host; without this every reading of the time is a slow
# emulated device's, which measures that device.
kernel_arguments='console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=reliable'

# start_machine NUMBER CONTROL [QEMU ARGUMENTS]...: boots a machine and passes its output on; sets machine_pids[NUMBER].
# If this script is killed (-9), so are its machines.
start_machine() {
    local number=$1 control=$2 i=0 folder arguments=()
    shift 2
    for folder in "${shares[@]}"; do
        arguments+=(-fsdev "local,id=share$i,path=${folder//,/,,},security_model=none,multidevs=remap"
            -device "virtio-9p-pci,fsdev=share$i,mount_tag=share$i")
        i=$((i + 1))
    done
    # shellcheck disable=SC2054 # QEMU's own commas
    # With erms the kernel copies single bytes, of which an emulated processor makes as many stores: a put of a word is seen in part.
    arguments=(-accel tcg,thread=multi -cpu max,-erms -smp "$cpus" -m "$memory" -nodefaults -no-user-config -display none -no-reboot
        -kernel "$image/vmlinux" -initrd "$image/initramfs"
        -append "$kernel_arguments" -serial "file:console"
        -fsdev local,id=root,path=/,readonly=on,security_model=none,multidevs=remap -device virtio-9p-pci,fsdev=root,mount_tag=root
        -fsdev local,id=control,path=.,security_model=none -device virtio-9p-pci,fsdev=control,mount_tag=control
        "${arguments[@]}" "$@")
    (
        cd "$control" && exec setpriv --pdeathsig TERM timeout --kill-after=5 "$timeout" \
            setpriv --pdeathsig KILL qemu-system-x86_64 "${arguments[@]}" </dev/null >qemu 2>&1
    ) &
    machine_pids[number]=$!
    pass_on "$control/stdout" "${machine_pids[number]}" &
    pass_on "$control/stderr" "${machine_pids[number]}" >&2 &
}

# pass_on FILE PID: what comes into a file, until the machine of this process has ended.
pass_on() {
    if [ -n "$output_label" ]; then
        tail -s 0.1 -f -c +1 --pid="$2" "$1" | sed -u "s/^/$output_label/"
    else
        exec tail -s 0.1 -f -c +1 --pid="$2" "$1"
    fi
}

# boots_again CONTROL: whether a machine that has ended is worth another boot: its kernel died before the command. At boot the kernel
# rewrites its own code, and QEMU may run an instruction that is no longer there ("Oops: int3"). Three boots are enough for that.
boots_again() {
    local control=$1
    [ ! -f "$control/started" ] && grep -aqE 'Oops|Kernel panic' "$control/console" || return
    echo >>"$control/deaths"
    : >"$control/stdout" >"$control/stderr"
    [ "$(wc -l <"$control/deaths")" -lt 3 ] || return
    echo "$me: the machine's kernel died at boot; booting again" >&2
}

# machine_status CONTROL ENDED: what a machine that has ended with ENDED (timeout's status) means, as `status`.
machine_status() {
    local control=$1
    grep -aE 'Out of memory|BUG:|Oops|Kernel panic' "$control/console" >&2 &&
        echo "$me: the machine's kernel has said the above; if memory is short, raise --memory (now $memory MiB)" >&2
    if [ -f "$control/status" ]; then
        status=$(cat "$control/status")
    elif [ "$2" = 124 ] || [ "$2" = 137 ]; then
        echo "$me: stopped: the limit of --timeout $timeout has passed" >&2
        status=124
    else
        tail -qn 20 "$control/console" "$control/qemu" >&2
        echo "$me: the machine has ended without a status of the command; its last words are above" >&2
        status=125
    fi
}
