# shellcheck shell=sh
# The probe for nodes without Python 3.6: POSIX sh (dash, bash, busybox, mksh, yash) and one awk for each sample; the same
# frames as the Python probe. NODE, INTERVAL, DEADMAN and SHORT (the longest piece of a frame where long lines would be
# cut, else nothing) come from the settings line; `s` is this text itself.
#
#   watch   reads commands from stdin; re-arms the dead-man; at EOF ends everything
#   main    one loop over a pipe, the bus, on which the others write short lines (each one write, so never torn):
#           watch its commands, timers their ticks, jobs what they found. It alone writes frames.
#   jobs    what can hang (nvidia-smi, df, user names), in the background, at most one of each kind.
#
# The bus needs no FIFO: main reads the pipe that watch writes to and opens its other end through /proc/self/fd.
# Limits: a killed session ends with status 137; the clock is /proc/uptime (10 ms); when nobody reads, a frame under
# way waits in write() and the ticks meanwhile are skipped; parents are left out, and the owners of processes that
# hidepid=2 hides; of questions only `signal` is answered; not more than 100 kB of process rows; ticks faster than 1 s need
# a sleep(1) that takes fractions; non-ASCII text becomes `?`.
LC_ALL=C
export LC_ALL
exec 2>/dev/null
unset IFS
# What the login calls so is not ours to end.
dead='' asleep='' timer='' alarm=''

where() {   # pid: by which number /proc knows it, and its group
    IFS= read -r stat <"/proc/$1/stat" || stat=''
    # shellcheck disable=SC2086
    set -- ${stat%% *} ${stat##*\) }
    known=$1 group=$4
}

# The group to end must hold us and nothing else. Not its leader means we may leave it. Where /proc is about other
# processes than ours, nothing is known.
where self
leader=''
[ "$known" != "$$" ] || leader=$group
again='' other=''
if [ -n "$leader" ] && [ "$leader" != "$$" ] && command -v setsid >/dev/null; then again=setsid; fi
# Where this sh has no kill (posh), or its pipes are sockets that nobody can open (ksh93), another one does better.
sockets=''
true | true >/proc/self/fd/0 || sockets=1
case $(command -v kill)$sockets in
kill) ;;
*) for name in dash bash busybox mksh yash; do [ -n "$other" ] || other=$(command -v $name); done ;;
esac
case $other in */busybox) other="$other sh" ;; esac
if [ -n "$again$other" ] && [ -n "$s" ] && [ -z "$GTOP_SETSID" ]; then
    GTOP_SETSID=1
    export GTOP_SETSID
    # shellcheck disable=SC2086
    exec $again ${other:-/bin/sh} -c "$s"
fi

finish() {  # ends all of us, and nobody else
    if [ "$leader" = "$$" ] && [ "$$" -gt 1 ]; then
        # In no other words: where kill is a program, procps 4.0 takes -9 -PID for everybody.
        kill -s KILL -- "-$$"
    elif [ -n "$leader" ]; then
        # Not by our own kill: we are on the list and would not come to its end.
        # shellcheck disable=SC2046
        env kill -s KILL $(descendants /proc/[0-9]*/stat)
    elif [ "$$" -gt 1 ]; then
        kill -s KILL "$$"
    fi
    exit
}

end_one() { # pid, signal: to one of ours, which another process that has this pid by now is not
    case $1 in '' | *[!0-9]* | 0* | 1) return ;; esac
    where "$1"
    case $leader in '' | "$group") kill -s "$2" "$1" ;; esac
}

descendants() {     # and ourselves, last
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
*MIRBSD*) say() { print -r -- "$1"; } ;;     # its printf is another program
*) say() { printf '%s\n' "$1"; } ;;
esac
rs=$(printf '\036')
case $SHORT in
'') send() { say "${rs}gtop1 $1" || finish; } ;;
*)
    sent=0
    send() {
        sent=$((sent + 1))
        say "$1" | awk -v head="${rs}gtop1+ $NODE $sent " -v end=" $NODE" -v most="$SHORT" '{
            m = int((length($0) + most - 1) / most)
            for (k = 1; k <= m; k++) {
                text = substr($0, (k - 1) * most + 1, most)
                print head k "/" m " " length(text) " " text end
            }
        }' || finish
    }
    ;;
esac

# The clock in hundredths of a second since the probe's start; `up` as the kernel prints it.
IFS=' .' read -r base line </proc/uptime
clock() {
    read -r up line </proc/uptime
    now=$(((${up%.*} - base) * 100 + 1${up#*.} - 100))
}
# Hundredths from seconds as written, and back.
hundredths() {
    case $1 in
    *.*)
        f=${1#*.}00
        # An old dash takes quotes in a sum for letters.
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
nap() {     # hundredths, what to say then
    if [ $fastest = 100 ]; then sec=$((($1 + 99) / 100)); else seconds "$1"; fi
    { sleep "$sec"; echo "$2"; } >&4 </dev/null &
}
