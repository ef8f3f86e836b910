# shellcheck shell=sh
# The probe for nodes without Python 3.6: POSIX sh (dash, bash, busybox, mksh, yash) and one awk per sample; the same
# frames as the Python probe. NODE, INTERVAL, DEADMAN, SHORT (the maximum fragment length for a connection that cuts long
# lines, else 0) and why sudo was refused come from the line after the source; `s` is this text itself.
#
#   read_commands   reads commands from stdin; re-arms the dead-man timer; ends everything at EOF
#   main            a loop over a pipe, the bus, to which the others write short lines (one write each, so never torn):
#                   commands, ticks of timers, results of jobs. Only main writes frames.
#   jobs            what can hang (nvidia-smi, df, user names), in the background, at most one of each kind
#
# The bus needs no FIFO: main reads the pipe that read_commands writes to and opens its other end through /proc/self/fd.
# Limits: a killed session ends with status 137; the clock is /proc/uptime (10 ms); while stdout is full, main blocks in
# write() and skips ticks; no parents, and no owners of processes hidden by hidepid=2; the only request answered is
# `signal`; at most 100 kB of process rows; intervals below 1 s need a sleep(1) that takes fractions; non-ASCII text
# becomes `?`.
LC_ALL=C
export LC_ALL
exec 2>/dev/null
unset IFS
# The login's environment may have variables of these names: their pids must not be killed.
dead_man='' sleep_pid='' timer='' wait_timer=''

locate_process() {   # pid: sets its number in /proc and its process group
    IFS= read -r stat <"/proc/$1/stat" || stat=''
    # shellcheck disable=SC2086
    set -- ${stat%% *} ${stat##*\) }
    known=$1 group=$4
}

# The process group that is killed at the end must contain the probe only, so the probe must lead it. If /proc belongs to
# another PID namespace, the group is unknown.
locate_process self
leader=''
[ "$known" != "$$" ] || leader=$group
setsid_program='' other=''
if [ -n "$leader" ] && [ "$leader" != "$$" ] && command -v setsid >/dev/null; then setsid_program=setsid; fi
# A sh without kill (posh), or whose pipes are sockets that cannot be opened (ksh93), is replaced by another one.
sockets=''
true | true >/proc/self/fd/0 || sockets=1
case $(command -v kill)$sockets in
kill) ;;
*) for name in dash bash busybox mksh yash; do [ -n "$other" ] || other=$(command -v $name); done ;;
esac
case $other in */busybox) other="$other sh" ;; esac
if [ -n "$setsid_program$other" ] && [ -n "$s" ] && [ -z "$GTOP_SETSID" ]; then
    GTOP_SETSID=1
    export GTOP_SETSID
    # shellcheck disable=SC2086
    exec $setsid_program ${other:-/bin/sh} -c "$s"
fi
read -r NODE INTERVAL DEADMAN SHORT refusal claims || exit 3
[ "$NODE" != - ] || NODE=$SLURMD_NODENAME
case $refusal in *[!a-z]*) refusal='' ;; esac
case $claims in *[!A-Za-z0-9_:,]*) claims='' ;; esac

finish() {  # kills all processes of the probe, and no others
    if [ "$leader" = "$$" ] && [ "$$" -gt 1 ]; then
        # Exactly in this form: kill of procps 4.0 takes -9 -PID for all processes.
        kill -s KILL -- "-$$"
    elif [ -n "$leader" ]; then
        # What a process starts after the list was made is not on it: so all others are stopped first, and those that they
        # had just started after them.
        locate_process self
        for _ in first second; do
            for pid in $(descendants /proc/[0-9]*/stat); do
                case $known in '' | "$pid") ;; *) kill -s STOP "$pid" ;; esac
            done
        done
        # Not by the built-in kill: this shell is on the list too and would die before its end.
        # shellcheck disable=SC2046
        env kill -s KILL $(descendants /proc/[0-9]*/stat)
    elif [ "$$" -gt 1 ]; then
        kill -s KILL "$$"
    fi
    exit
}

signal_own() { # pid, signal: signals a process of the probe; not another process that now has this pid
    case $1 in '' | *[!0-9]* | 0* | 1) return ;; esac
    locate_process "$1"
    case $leader in '' | "$group") kill -s "$2" "$1" ;; esac
}

descendants() {     # prints the pids of all descendants, and then of this shell
    awk -v root=$$ '
        function below(p,  i) { for (i in parent) if (parent[i] == p && i > 1) { print i; below(i) } }
        BEGIN {
            for (i = 1; i < ARGC; i++) {
                if ((getline line < ARGV[i]) > 0) { n = split(line, part, ")"); split(part[n], f, " "); parent[line + 0] = f[2] }
                close(ARGV[i])
            }
            below(root)
            if (root > 1) print root
        }' "$@" </dev/null
}

case $KSH_VERSION in
*MIRBSD*) print_line() { print -r -- "$1"; } ;;     # mksh has no built-in printf
*) print_line() { printf '%s\n' "$1"; } ;;
esac
rs=$(printf '\036')
case $SHORT in
0) send() { print_line "${rs}gtop1 $1" || finish; } ;;
*)
    sent=0
    send() {
        sent=$((sent + 1))
        print_line "$1" | awk -v head="${rs}gtop1+ $NODE $sent " -v end=" $NODE" -v max="$SHORT" '{
            m = int((length($0) + max - 1) / max)
            for (k = 1; k <= m; k++) {
                text = substr($0, (k - 1) * max + 1, max)
                print head k "/" m " " length(text) " " text end
            }
        }' || finish
    }
    ;;
esac

# Sets `now` to hundredths of a second since the probe's start, and `up` to the kernel's uptime.
IFS=' .' read -r base line </proc/uptime
clock() {
    read -r up line </proc/uptime
    now=$(((${up%.*} - base) * 100 + 1${up#*.} - 100))
}
# Converts decimal seconds to hundredths, and back.
hundredths() {
    case $1 in
    *.*)
        f=${1#*.}00
        # An old dash does not remove quotes in arithmetic.
        f=${f%"${f#??}"}
        cs=$((${1%%.*} * 100 + 1$f - 100))
        ;;
    *) cs=$(($1 * 100)) ;;
    esac
    [ $cs -le 360000 ] || cs=360000
    if [ $cs -gt 0 ] && [ $cs -lt "$fastest" ]; then cs=$fastest; fi
}
seconds() {
    f=$(($1 % 100))
    case $f in ?) f=0$f ;; esac
    sec=$(($1 / 100)).$f
}
fastest=5
sleep 0.01 || fastest=100
after() {     # hundredths, a line: writes the line to the bus after that time
    if [ $fastest = 100 ]; then sec=$((($1 + 99) / 100)); else seconds "$1"; fi
    { sleep "$sec"; echo "$2"; } >&4 </dev/null &
}
