#!/bin/sh
# Run a statically linked x86-64 program on an emulated processor with AVX-512.
#
#   tools/run-under-avx512.sh PROGRAM [ARGUMENT...]
#
# For correctness only, on machines whose own processor has no AVX-512: boots a
# Debian kernel in Bochs (which interprets every instruction, so it needs no
# hardware support), with an initial file system that holds PROGRAM and a small
# init.  PROGRAM's standard output and standard error come out as this script's;
# its standard input is empty.  The exit status is PROGRAM's (128 + n when signal
# n killed it), or 125 when the emulation failed or went past the time limit.
#
# Starting the machine takes about 15 seconds; after that expect about 40
# million plain instructions a second, 9 million 512-bit integer ones or 4 million 512-bit
# fused multiply-adds.  There is one processor.  Its clock counts one 3.5 GHz cycle
# per instruction, so a second of computing inside lasts more than a minute outside:
# do not time anything there.
#
# What Bochs 2.7 (Debian 12) is known to do differently from a real processor:
#   - float to half (vcvtps2ph, every width) rounds ties away from zero instead of
#     to even;
#   - a double fused multiply-add, scalar too, whose sum cancels 63 bits or more of
#     the product returns zero; floats are right;
#   - the masked forms of vcvtph2ps, vpmovsx*, vpmovzx*, vexpandp*, vpexpand*,
#     vpmaddwd and vbroadcastf32x4/x8 that read memory read the whole operand: they
#     fault at the end of mapped memory, where a real processor reads only the
#     elements in the mask.  Masked moves, stores and arithmetic are right.
#
# Environment, all optional:
#   LIMIT                   time limit in seconds, the start included (600)
#   WHET_EMULATOR_DIR       where the kernel and the init are kept (build/emulator)
#   WHET_EMULATOR_FILES     files or directories, relative to the current one and
#                           separated by blanks, that PROGRAM finds at the same
#                           relative path in its own current directory
#   WHET_EMULATOR_ENV       names of environment variables to hand to PROGRAM
#   WHET_EMULATOR_CPU       Bochs processor model (corei7_skylake_x: AVX-512 F, CD,
#                           BW, DQ, VL); "bochs --help cpu" lists them
#   WHET_EMULATOR_MEMORY    memory of the machine in MiB (512; a multiple of 4)
#   WHET_EMULATOR_KERNEL    a kernel image (vmlinuz) to use instead of Debian's
#                           linux-image-cloud-amd64, which is otherwise fetched once
#                           with "apt-get download" and unpacked, not installed
#   WHET_EMULATOR_KEEP      if set, keep the machine's files and say where they are
#   WHET_EMULATOR_VERBOSE   if set, report the instructions executed and the speed
set -u
LC_ALL=C; export LC_ALL
me=${0##*/}

say() { printf '%s: %s\n' "$me" "$*" >&2; }
fail() { say "$@"; exit 125; }

[ $# -ge 1 ] || { sed -n '2,/^set -u/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 125; }
program=$1
shift
[ -f "$program" ] && [ -r "$program" ] || fail "no such program: $program"

limit=${LIMIT:-600}
dir=${WHET_EMULATOR_DIR:-build/emulator}
cpu=${WHET_EMULATOR_CPU:-corei7_skylake_x}
memory=${WHET_EMULATOR_MEMORY:-512}
cc=${CC:-cc}
for number in "$limit" "$memory"; do
    case $number in '' | *[!0-9]*) fail "not a whole number: $number" ;; esac
done

# --- what it needs -------------------------------------------------------------

packages='bochs bochs-term bochsbios isolinux syslinux-common xorriso cpio gcc libc6-dev binutils'

# The path of a file of an installed Debian package.
package_file() { dpkg -L "$1" 2>/dev/null | grep -- "/$2\$" | head -n 1; }

missing=
for pair in bochs-bin:bochs xorriso:xorriso cpio:cpio "$cc:gcc" readelf:binutils; do
    command -v "${pair%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
term=$(package_file bochs-term 'libbx_term_gui\.so')
bios=$(package_file bochsbios BIOS-bochs-latest)
vgabios=$(package_file bochs VGABIOS-lgpl-latest)
isolinux=$(package_file isolinux 'isolinux\.bin')
ldlinux=$(package_file syslinux-common 'bios/ldlinux\.c32')
[ -n "$term" ] || missing="$missing bochs-term"
[ -n "$bios" ] || missing="$missing bochsbios"
[ -n "$vgabios" ] || missing="$missing bochs"
[ -n "$isolinux" ] || missing="$missing isolinux"
[ -n "$ldlinux" ] || missing="$missing syslinux-common"
if [ -n "$missing" ]; then
    missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
    say "missing Debian packages: $missing"
    fail "all it needs: apt-get install --no-install-recommends $packages"
fi

readelf -h "$program" 2>/dev/null | grep -q 'Machine:.*X86-64' ||
    fail "not an x86-64 program: $program"
if readelf -lW "$program" 2>/dev/null | grep -q INTERP; then
    fail "not statically linked: $program"
fi

# --- kernel and init, kept between runs ------------------------------------------

mkdir -p "$dir" || exit 125
dir=$(cd "$dir" && pwd) || exit 125
run=$(mktemp -d "$dir/run.XXXXXX") || exit 125
child=
reader_out=
reader_err=
# Called by the traps.
finish() {
    for process in $child $reader_out $reader_err; do
        kill "$process" 2>/dev/null
    done
    if [ -n "${WHET_EMULATOR_KEEP:-}" ]; then say "kept $run"; else rm -rf "$run"; fi
}
trap finish EXIT
trap 'exit 125' HUP INT TERM

kernel=${WHET_EMULATOR_KERNEL:-$dir/vmlinuz}
if [ ! -s "$kernel" ]; then
    [ -z "${WHET_EMULATOR_KERNEL:-}" ] || fail "no such kernel: $kernel"
    # linux-image-cloud-amd64 is empty: the package it depends on has the kernel.
    package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1)
    [ -n "$package" ] || fail "apt does not know linux-image-cloud-amd64 (try apt-get update)"
    say "fetching $package"
    (cd "$run" && apt-get -q -q download "$package" >apt.log 2>&1) || {
        cat "$run/apt.log" >&2
        fail "cannot download $package (try apt-get update)"
    }
    mkdir "$run/kernel" && dpkg-deb -x "$run"/linux-image-*.deb "$run/kernel" &&
        mv "$run"/kernel/boot/vmlinuz-* "$run/vmlinuz" || fail "cannot unpack $package"
    rm -rf "$run/kernel" "$run"/linux-image-*.deb
    mv -f "$run/vmlinuz" "$dir/vmlinuz" || exit 125
fi

# The init: output goes out through the two parallel ports, which Bochs writes to
# files byte for byte; status and complaints go to Bochs's debugging port 0xe9; and
# a word written to port 0x8900 switches the machine off.
init=$dir/init-$(cksum <"$0" | tr ' ' -)
if [ ! -x "$init" ]; then
    cat >"$run/init.c" <<'END'
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { out_port = 0x378, error_port = 0x278, debug_port = 0xe9, power_port = 0x8900 };

static void print(int port, const char *text, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        outb((unsigned char)text[i], port);
        outb(0x0d, port + 2); // strobe
        outb(0x0c, port + 2);
    }
}

static _Noreturn void finish(const char *format, ...) {
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (const char *p = text; *p; ++p) outb((unsigned char)*p, debug_port);
    for (;;)
        for (const char *p = "Shutdown"; *p; ++p) outb((unsigned char)*p, power_port);
}

#define FAIL(what) finish("\nwhet-failed %s: %s\n", what, strerror(errno))

// The strings of a file in which each ends with a zero byte.
static char **strings(const char *path) {
    int file = open(path, O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status)) FAIL(path);
    size_t size = (size_t)status.st_size, count = 0, have = 0;
    char *text = malloc(size + 1);
    while (have < size) {
        ssize_t n = read(file, text + have, size - have);
        if (n <= 0) FAIL(path);
        have += (size_t)n;
    }
    close(file);
    for (size_t i = 0; i < size; ++i) count += !text[i];
    char **list = calloc(count + 1, sizeof *list);
    for (size_t i = 0; i < count; ++i) {
        list[i] = text;
        text += strlen(text) + 1;
    }
    return list;
}

static void check_processor(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) b = 0;
    unsigned want = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    if ((b & want) != want) finish("\nwhet-failed the processor model has no AVX-512\n");
    __get_cpuid(1, &a, &b, &c, &d);
    if (!(c & bit_OSXSAVE)) finish("\nwhet-failed the kernel does not use XSAVE\n");
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 0xe6) != 0xe6) finish("\nwhet-failed the kernel does not save ZMM registers\n");
}

int main(void) {
    if (ioperm(0, 0x9000, 1)) return 1;
    check_processor();
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mkdir("/dev", 0755);
    mkdir("/tmp", 01777);
    mount("proc", "/proc", "proc", 0, 0);
    mount("sysfs", "/sys", "sysfs", 0, 0);
    mount("devtmpfs", "/dev", "devtmpfs", 0, 0);
    mkdir("/dev/shm", 01777);
    mount("tmpfs", "/dev/shm", "tmpfs", 0, 0);
    symlink("/proc/self/fd", "/dev/fd");
    symlink("/proc/self/fd/0", "/dev/stdin");
    symlink("/proc/self/fd/1", "/dev/stdout");
    symlink("/proc/self/fd/2", "/dev/stderr");
    klogctl(8, 0, 8); // from here on the console shows what befalls the program

    char **arguments = strings("/whet/arguments"), **variables = strings("/whet/variables");
    int ends[2][2], ports[2] = {out_port, error_port};
    for (int i = 0; i < 2; ++i)
        if (pipe2(ends[i], O_CLOEXEC)) FAIL("pipe");
    pid_t child = fork();
    if (child < 0) FAIL("fork");
    if (!child) {
        ioperm(0, 0x9000, 0);
        int none = open("/dev/null", O_RDONLY);
        dup2(none, 0);
        dup2(ends[0][1], 1);
        dup2(ends[1][1], 2);
        if (none > 2) close(none);
        setsid();
        if (chdir("/whet/work")) _exit(127);
        execve("/whet/program", arguments, variables);
        dprintf(2, "execve: %s\n", strerror(errno));
        _exit(126);
    }
    close(ends[0][1]);
    close(ends[1][1]);

    // Pass the output on until the program has ended and both pipes are empty; a
    // process that it left behind may hold them open, and is not waited for.
    int status = 0, ended = 0, open_ends = 2;
    struct pollfd polls[2] = {{ends[0][0], POLLIN, 0}, {ends[1][0], POLLIN, 0}};
    while (open_ends) {
        int ready = poll(polls, 2, ended ? 0 : 20);
        if (ready < 0 && errno != EINTR) FAIL("poll");
        if (ready <= 0 && ended) break;
        for (int i = 0; ready > 0 && i < 2; ++i) {
            static char text[65536];
            if (!polls[i].revents) continue;
            ssize_t size = read(polls[i].fd, text, sizeof text);
            if (size > 0) {
                print(ports[i], text, (size_t)size);
            } else {
                polls[i].fd = -1;
                --open_ends;
            }
        }
        for (pid_t pid; !ended && (pid = waitpid(-1, &status, WNOHANG)) > 0;)
            ended = pid == child;
    }
    while (!ended) {
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0) FAIL("waitpid");
        ended = pid == child;
    }
    if (WIFSIGNALED(status)) finish("\nwhet-signal %d\n", WTERMSIG(status));
    finish("\nwhet-status %d\n", WEXITSTATUS(status));
}
END
    "$cc" -O2 -static -o "$run/init" "$run/init.c" || fail "cannot compile the init"
    rm -f "$dir"/init-*
    mv -f "$run/init" "$init" || exit 125
fi

# --- the machine -----------------------------------------------------------------

mkdir -p "$run/root/whet/work" "$run/root/dev" "$run/disc" || exit 125
cp "$init" "$run/root/init" && cp "$program" "$run/root/whet/program" || exit 125
chmod 755 "$run/root/init" "$run/root/whet/program"
printf '%s\0' "$program" "$@" >"$run/root/whet/arguments"
{
    printf '%s\0' PATH=/usr/bin:/bin HOME=/tmp TMPDIR=/tmp LC_ALL=C
    for name in ${WHET_EMULATOR_ENV:-}; do
        # Only variables that are set, and in the environment.
        value=$(printenv "$name") && printf '%s\0' "$name=$value"
    done
} >"$run/root/whet/variables"
for file in ${WHET_EMULATOR_FILES:-}; do
    case $file in /* | .. | ../* | */.. | */../*) fail "not below the current directory: $file" ;; esac
    cp -RL --parents "$file" "$run/root/whet/work" || fail "cannot copy $file"
done
(cd "$run/root" && find . | cpio --quiet -o -H newc -R 0:0) >"$run/disc/initrd" || fail "cpio failed"
rm -rf "$run/root"
cp -L "$kernel" "$run/disc/linux" || exit 125
cp "$isolinux" "$run/disc/isolinux.bin" && cp "$ldlinux" "$run/disc/ldlinux.c32" || exit 125

# clearcpuid: Bochs 2.7 states a wrong size for the compacted XSAVE form, whereupon
# the kernel would turn off AVX altogether; without xsavec and xsaves it uses the
# plain form.  The models after Skylake also have pku wrong, and hang over fsrm.
# panic, reboot: a kernel that panics ends in a triple fault, at which Bochs stops.
# cryptomgr, initcall_blacklist: these only cost time (20 of 35 seconds).
cat >"$run/disc/isolinux.cfg" <<END
default linux
prompt 0
timeout 0
label linux
  kernel linux
  append initrd=initrd console=ttyS0,115200 clearcpuid=xsavec,xsaves,pku,ospke,fsrm mitigations=off nokaslr panic=-1 reboot=t tsc=reliable nowatchdog cryptomgr.notests initcall_blacklist=load_system_certificate_list,trace_eval_init
END
(cd "$run" && xorriso -as mkisofs -quiet -o disc.iso -b isolinux.bin -c boot.cat \
    -no-emul-boot -boot-load-size 4 -boot-info-table disc) >"$run/xorriso.log" 2>&1 ||
    { cat "$run/xorriso.log" >&2; fail "xorriso failed"; }

# A low ips makes waiting for devices short.  Debian's Bochs has its debugger built
# in; the file named with -rc tells it to carry on.
cat >"$run/bochsrc" <<END
config_interface: textconfig
display_library: term
cpu: model=$cpu, count=1, ips=10000000, reset_on_triple_fault=0
memory: guest=$memory, host=$memory
romimage: file=$bios
vgaromimage: file=$vgabios
ata0: enabled=1
ata0-master: type=cdrom, path=disc.iso, status=inserted
boot: cdrom
clock: sync=none, time0=utc
speaker: enabled=1, mode=none
com1: enabled=1, mode=file, dev=console.txt
parport1: enabled=1, file=out.txt
parport2: enabled=1, file=err.txt
port_e9_hack: enabled=1
log: bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
END
echo continue >"$run/debugger"
: >"$run/out.txt"
: >"$run/err.txt"
: >"$run/console.txt"

begin=$(date +%s)
(cd "$run" && TERM=vt100 exec timeout -s KILL -k 1 "$limit" \
    nice -n 10 bochs-bin -q -f bochsrc -rc debugger) </dev/null >"$run/bochs.txt" 2>"$run/bochs.err" &
child=$!
# Bochs may empty the files once when it starts, of which tail would tell.
tail -c +1 -f -s 0.2 --pid=$child "$run/out.txt" 2>/dev/null &
reader_out=$!
tail -c +1 -f -s 0.2 --pid=$child "$run/err.txt" >&2 2>/dev/null &
reader_err=$!
wait "$child" 2>/dev/null
ended=$?
child=
wait "$reader_out" "$reader_err"
reader_out=
reader_err=

if [ -n "${WHET_EMULATOR_VERBOSE:-}" ]; then
    seconds=$(($(date +%s) - begin))
    ticks=$(sed -n 's/^\([0-9]\{11,\}\).*/\1/p' "$run/bochs.log" | tail -n 1)
    [ -z "$ticks" ] || awk -v t="$ticks" -v s="$seconds" -v me="$me" 'BEGIN {
        printf "%s: %.0f million instructions or idle cycles in %d s, %.1f million a second\n",
            me, t / 1e6, s, t / 1e6 / (s ? s : 1) }' >&2
fi

result=$(tr -d '\r' <"$run/bochs.txt" | sed -n 's/^whet-//p' | tail -n 1)
case $result in
status\ *)
    exit "${result#* }"
    ;;
signal\ *)
    say "killed by signal ${result#* }"
    grep -a -A 100 'Run /init' "$run/console.txt" | tail -n +2 | tail -n 20 >&2
    exit $((128 + ${result#* }))
    ;;
failed\ *)
    fail "${result#* }"
    ;;
esac
if [ "$ended" -eq 124 ] || [ "$ended" -eq 137 ]; then
    say "past the time limit of $limit s"
else
    say "Bochs ended without a result (status $ended)"
fi
say "the end of what Bochs said, and of the machine's console:"
grep -a -A 3 'exiting with the following' "$run/bochs.err" >&2
tail -n 15 "$run/console.txt" >&2
exit 125
