# shellcheck shell=sh
# The loop: what is due, what has come, what is stuck. Last part of the sh probe; base.sh is the first and explains.
emit() {    # one sample with what is there, and on to the next tick
    clock
    [ -n "$csv_new$full" ] || csv=''
    [ -n "$apps_new$full" ] || apps=''
    [ -n "$details_new$full" ] || details=''
    unseen=''
    [ -z "$csv" ] || absences
    # An old dash does not hand on what stands in front of a function's name.
    out=$(export n unseen slow csv csv_at details apps apps_at pids facts && sample)
    send "${out#*"$nl"}"
    if [ -n "$csv" ]; then
        # Told is what `who` has answered; the others are asked about, as is a pid that is another process now.
        before=$told told=' ' new='' facts=''
        for key in ${out%%"$nl"*}; do
            case "$before " in *" $key "*) told="$told$key " ;; *)
                case " $asked " in *" ${key%:*} "*) ;; *) new="$new ${key%:*}" ;; esac
                ;;
            esac
        done
    fi
    csv=$csv_last apps=$apps_last details=$details_last
    csv_new='' apps_new='' details_new='' slow='' full='' pending=''
}

plan() {    # the timer for the next tick; ticks that have passed meanwhile count as dropped
    clock
    if [ "$n" = 1 ] && [ "$pace" -ge 30 ]; then
        due=$((start + 30))
        [ "$due" -gt "$now" ] || due=$((now + 1))
    else
        last=$due
        due=$((start + ((now - start) / pace + 1) * pace))
        if [ "$n" -gt 2 ] && [ $((due - last)) -gt $((pace + pace / 2)) ]; then n=$((n + (due - last) / pace - 1)); fi
        if [ $((due - now)) -lt $((pace * 3 / 10)) ]; then due=$((due + pace)); fi
    fi
    alight
}

alight() {  # the timer itself; it looks in every second while a job is under way
    sequence=$((sequence + 1))
    left=$((due - now))
    if [ $left -gt 100 ] && [ -n "$smi_job$slow_job$who_job" ]; then left=100; fi
    nap $left "tick $sequence"
    timer=$!
}

job() {     # kind, then what to run
    kind=$1
    shift
    "$@" >&4 </dev/null &
    clock
    case $kind in
    smi) smi_job=$! smi_since=$now smi_told=0 rows='' noise='' drops='' flood='' late='' smi_pid='' status='' ;;
    slow) slow_job=$! slow_since=$now slow_told=0 ;;
    who) who_job=$! who_since=$now who_told=0 ;;
    name) name_job=$! ;;
    esac
}

error() {   # source, code, call, hundredths, message as JSON or nothing
    seconds "$4"
    clock
    scope=host
    [ "$2" != lost ] || scope=device
    send "{\"t\":\"error\",\"at\":$up,\"source\":\"$1\",\"scope\":\"$scope\",\"code\":\"$2\",\"call\":\"$3\",\"for\":$sec${5:+,\"message\":$5}}"
}

stuck() {   # source, call, since, told: 0 when there is something to say
    [ $((now - $3)) -ge 300 ] && [ $((now - $4)) -ge 195 ] || return 1
    code=stuck
    # The first call may load the driver.
    [ "$1$smi_worked" != nvidia-smi ] || [ $((now - $3)) -ge 6000 ] || code=starting
    error "$1" $code "$2" $((now - $3)) ''
}

patrol() {  # jobs that do not come back
    clock
    if [ -n "$smi_job" ]; then
        if stuck nvidia-smi "$smi_call" "$smi_since" "$smi_told"; then smi_told=$now csv_last='' csv=''; fi
        if [ $((now - smi_since)) -gt $smi_limit ] && [ -n "$smi_pid" ]; then late=1; end_one "$smi_pid" KILL; fi
    fi
    if [ -n "$slow_job" ] && stuck host.slow df "$slow_since" "$slow_told"; then slow_told=$now; fi
    if [ -n "$who_job" ] && stuck host.slow cmdline "$who_since" "$who_told"; then who_told=$now; fi
}

smi() {     # what for, how to call it, options
    smi_call=$2
    kind=$1
    shift 2
    job smi ask "$kind" "$@"
}

query() { smi query 'nvidia-smi --query-gpu' "--query-gpu=$fields" --format=csv,noheader,nounits; }

details() { smi more 'nvidia-smi --query-gpu' "--query-gpu=$more" --format=csv,noheader,nounits; }

ended() {   # nvidia-smi has; whether what it printed counts
    wait "$smi_job"
    smi_job='' smi_pid=''
    [ -z "$late$flood" ]
}

failed() {  # source: why nvidia-smi gave nothing
    first=${noise%%"$nl"*}
    case $noise in
    *'ersion mismatch'*) code=mismatch ;;
    *"couldn't communicate with the NVIDIA driver"*) code=nodriver ;;
    *"couldn't find libnvidia-ml"* | *'error while loading shared libraries'*) code=nolib ;;
    *'nsufficient '[Pp]ermissions* | *'ermission denied'*) code=perm ;;
    *'GPU is lost'* | *'nable to determine the device handle'*) code=lost ;;
    *)
        case $status in
        4 | 126) code=perm ;; 9) code=nodriver ;; 12) code=nolib ;; 15) code=lost ;; 18) code=mismatch ;; 0) code=parse ;;
        *) code=failed ;;
        esac
        ;;
    esac
    clock
    if [ -n "$late" ]; then
        error "$1" stuck "$smi_call" $((now - smi_since)) "\"killed after $(((now - smi_since) / 100)) s\""
    elif [ -n "$flood" ]; then
        error "$1" parse "$smi_call" 0 '"printed more than 1048576 bytes"'
    else
        error "$1" $code "$smi_call" 0 "${first:-"\"exited with $status and printed nothing\""}"
    fi
    case $1 in
    *.processes) apps_last='' apps='' ;;
    *.slow) details_last='' details='' ;;
    *) csv_last='' csv='' smi_due=$((now + 500)) ;;
    esac
}

without() { # list of fields, those to leave out
    list=,$1,
    shift
    for field in "$@"; do
        case $list in *",$field,"*) list=${list%%",$field,"*},${list#*",$field,"} ;; esac
    done
    list=${list#,} list=${list%,}
}

listed() {  # words between commas, as JSON
    quoted='' list=$1
    while :; do
        case $list in *,*) quoted="$quoted\"${list%%,*}\"," list=${list#*,} ;; *) break ;; esac
    done
    quoted="[$quoted\"$list\"]"
}

paced() {   # how often it is asked: without persistence each query wakes the driver up
    old=$every every=100
    case $rows in *', Disabled, P'*) case $fields in *,persistence_mode,pstate,*) every=500 ;; esac ;; esac
    took=$((now - smi_since))
    if [ $took -gt 200 ]; then
        # Where it takes long, it rests as long as it works.
        for every in 500 1000 2000 4000 8000 16000; do [ $every -lt $((2 * took)) ] || break; done
        [ $smi_due -ge $((now + took)) ] || smi_due=$((now + took))
    fi
    smi_limit=$((3 * took)) smi_worked=1
    [ $smi_limit -ge 1000 ] || smi_limit=1000
    [ $smi_limit -le 6000 ] || smi_limit=6000
    [ $every = $old ] || { smi_due=$((smi_due + every - old)); hello; }
}

answered() {    # nvidia-smi's device query has ended
    if ! ended; then
        failed nvidia-smi
        return
    fi
    if [ -n "$drops" ] && [ $tries -lt 40 ]; then
        tries=$((tries + 1))
        # shellcheck disable=SC2086
        without $fields $drops
        fields=$list
        if [ -n "$known" ]; then query; else learn query; fi
        return
    fi
    tries=0
    if [ -z "$rows" ]; then
        failed nvidia-smi
        return
    fi
    clock
    paced
    listed "$fields"
    list=''
    while [ -n "$noise" ]; do list="$list,${noise%%"$nl"*}" noise=${noise#*"$nl"}; done
    csv="{\"columns\":$quoted,\"rows\":[${rows#,}],\"noise\":[${list#,}]}"
    csv_last=$csv csv_at=$up csv_new=1
    has_mig=''
    case $fields in
    *,compute_mode,mig.mode.current,*)
        case $rows in
        *', Default, Enabled, '* | *'_Process, Enabled, '* | *'_Thread, Enabled, '* | *', Prohibited, Enabled, '*) has_mig=1 ;;
        esac
        ;;
    esac
    onward
}

learn() {   # for what: it names one unknown field at a time, and its help all it knows
    known=, learning=$1
    smi help 'nvidia-smi --help-query-gpu' --help-query-gpu
}

learned() { # its help has ended; with none, one field after the other is left out
    wait "$smi_job"
    smi_job='' smi_pid=''
    if [ "$known" != , ]; then
        only "$fields"
        [ -z "$list" ] || fields=$list
        only "$more"
        [ -z "$list" ] || more=$list
    fi
    if [ "$learning" = query ]; then query; else details; fi
}

only() {    # those of a list of fields that are known
    rest=$1, list=''
    while [ -n "$rest" ]; do
        case $known in *",${rest%%,*},"*) list="$list,${rest%%,*}" ;; esac
        rest=${rest#*,}
    done
    list=${list#,}
}

device_files() {    # the numbers of device files by PCI id, as the driver tells them
    list=''
    for place in /proc/driver/nvidia/gpus/*; do
        id=${place##*/}
        case $id in *[!0-9a-fA-F:.]*) continue ;; esac
        while read -r key word value; do
            case $key$word$value in
            DeviceMinor:*[!0-9]* | DeviceMinor:0?*) ;;
            DeviceMinor:[0-9]*) list="$list,\"$id\":$value" ;;
            esac
        done <"$place/information"
    done
    [ -z "$list" ] || minors=",\"minors\":{${list#,}}"
}

numbered() {    # where /proc does not tell, nvidia-smi has
    wait "$smi_job"
    smi_job='' smi_pid='' minors=",\"minors\":{${rows#,}}"
    if [ -n "$more" ]; then details; else sliced; fi
}

onward() {  # the next question to nvidia-smi, if one is due; the slow group first, which tells of slices
    clock
    if [ "$now" -ge "$more_due" ]; then
        more_due=$((now + 990))
        more_json=''
        [ -n "$minors" ] || device_files
        if [ -z "$minors" ]; then smi files 'nvidia-smi -q' -q; elif [ -n "$more" ]; then details; else sliced; fi
    elif [ "$now" -ge "$apps_due" ]; then
        apps_due=$((now + 190))
        [ $every -le 200 ] || apps_due=$((now + every - 10))
        smi apps 'nvidia-smi --query-compute-apps' --query-compute-apps=gpu_uuid,pid,used_memory,process_name \
            --format=csv,noheader,nounits
    fi
}

detailed() {    # the query for the slow group has ended; when it fails, the rest of the group is told
    if ! ended; then
        failed nvidia-smi.slow
        sliced
        return
    fi
    if [ -n "$drops" ]; then
        tries=$((tries + 1))
        # shellcheck disable=SC2086
        without $more $drops
        more=$list
        if [ $tries -ge 40 ]; then
            # Too old for most of them: never again.
            if [ -n "$newer" ]; then more=$more_old; else more=''; fi
            newer='' tries=0
        fi
        if [ -z "$known" ]; then learn details; elif [ -n "$more" ]; then details; else sliced; fi
        return
    fi
    tries=0
    if [ -z "$rows" ]; then
        failed nvidia-smi.slow
        sliced
        return
    fi
    listed "$more"
    more_json=",\"more\":{\"columns\":$quoted,\"rows\":[${rows#,}]}"
    sliced
}

sliced() {  # slices are asked for where there are any
    if [ -n "$has_mig" ]; then smi list 'nvidia-smi -L' -L; else tell; fi
}

tell() {    # all of the slow group is there
    clock
    details=",\"slow\":$up$minors$more_json"
    details_last=$details details_new=1 csv=$csv_last csv_new=1
    onward
}

listed_all() {  # a list has ended; nvidia-smi warns by its status, too, and tells all the same
    ended && { [ "$status" = 0 ] || [ -n "$rows" ]; }
}

named() {   # the list of slices has ended
    if ! listed_all; then
        failed nvidia-smi.slow
        tell
        return
    fi
    slices=${rows#,}
    smi table nvidia-smi
}

tabled() {  # the table has ended; who the slices are is known without it
    listed_all || failed nvidia-smi.slow
    more_json="$more_json,\"mig\":{\"list\":[$slices],\"table\":[${rows#,}]}"
    tell
}

users() {   # nvidia-smi's process query has ended
    # It warns by 14, of a corrupted infoROM, and by 15, of a lost device, and tells of the others.
    if ! ended || { [ "$status" != 0 ] && [ "$status" != 14 ] && [ -z "$rows" ]; }; then
        failed nvidia-smi.processes
        return
    fi
    clock
    apps=",${rows#,}" apps_at=$up apps_new=1 pids=''
    apps_last=$apps
    while :; do
        row=${rows#,\"*, }
        [ "$row" != "$rows" ] || break
        pid=${row%%,*}
        case $pid in
        '' | *[!0-9]* | 0*) ;;
        *)
            case "$pids " in
            *" $pid "*) ;;
            *)
                pids="$pids $pid"
                case "$told $new $asked " in *" $pid:"* | *" $pid "*) ;; *) new="$new $pid" ;; esac
                ;;
            esac
            ;;
        esac
        # An old dash takes single quotes between double ones for letters.
        row=${rows#*'","'}
        [ "$row" != "$rows" ] || break
        rows=,\"$row
    done
}

advance() { # starts what is due, and sends the waiting sample as soon as nothing it waits for is under way
    if [ -z "$who_job" ] && [ -n "$new" ] && [ ${#facts} -lt 40000 ]; then
        # shellcheck disable=SC2086
        set -- $new
        count=$#
        [ $count -le 32 ] || count=32
        turn='' new=''
        for pid in "$@"; do
            if [ $count -gt 0 ]; then turn="$turn $pid" count=$((count - 1)); else new="$new $pid"; fi
        done
        asked=$turn
        # shellcheck disable=SC2086
        job who who $turn
    fi
    if [ -z "$name_job" ] && [ -n "$unnamed" ]; then
        turn=$unnamed unnamed=''
        # shellcheck disable=SC2086
        job name ask_names $turn
    fi
    if [ -n "$pending" ] && [ -z "$smi_job$who_job" ]; then emit; plan; fi
}

tick() {
    clock
    n=$((n + 1))
    began=$up
    pending=1
    if [ "$now" -ge "$full_at" ]; then
        full=1
        full_at=$((full_at + ((now - full_at) / 6000 + 1) * 6000))
    fi
    # A full sample tells every process again.
    [ -z "$full" ] || { new=$pids told=''; slow=$slow_last; }
    if [ "$now" -ge "$slow_due" ] && [ -z "$slow_job" ]; then
        slow_due=$((now + 1000 - pace / 20))
        look
        job slow slow
    fi
    if [ -z "$smi" ] && [ "$now" -ge "$smi_due" ]; then
        smi_due=$((now + 6000))
        find_smi
        [ -z "$smi" ] || { smi_due=$now; hello; }
    fi
    slack=$((pace / 10))
    [ $slack -le 5 ] || slack=5
    if [ -n "$smi" ] && [ -z "$smi_job" ] && [ "$now" -ge $((smi_due - slack)) ]; then
        smi_due=$((now + every))
        query
        wait_for=$((pace / 4))
        [ $wait_for -le 30 ] || wait_for=30
        nap $wait_for "late $n"
        alarm=$!
    elif [ -n "$smi_job" ] || [ -n "$who_job" ]; then
        # Still at the last question: not worth a wait.
        emit
        plan
    fi
}

answer() {  # id, result, why
    clock
    send "{\"t\":\"answer\",\"id\":$1,\"at\":$up,\"result\":\"$2\"${3:+,\"why\":\"$3\"}}"
}

deliver() { # "id pid start signal": to the process that is meant, and to no other
    # shellcheck disable=SC2086
    set -- $1
    id=$1 pid=$2 born=$3 number=$4 line=''
    case $number in
    [1-9] | [12][0-9] | 3[01]) ;;
    *) answer "$id" bad 'not a signal that may be sent'; return ;;
    esac
    if [ -z "$leader" ]; then answer "$id" refused 'what /proc shows is about other processes'; return; fi
    if [ "$pid" -le 1 ]; then answer "$id" refused 'that is the process the node stands on'; return; fi
    whose="$uid"
    [ "$uid" = 0 ] || whose=$(own "$pid")
    # A name may hold a line end. From here on nothing waits, and nothing is started.
    while IFS= read -r part || [ -n "$part" ]; do line="$line $part"; done <"/proc/$pid/stat"
    if [ -z "$line" ]; then
        case $(kill -0 "$pid" 2>&1) in
        *ermitted*) answer "$id" refused 'the node hides this process' ;;
        *) answer "$id" gone 'no such process' ;;
        esac
        return
    fi
    # shellcheck disable=SC2086
    set -- ${line##*\) }
    if [ "${20}" != "$born" ]; then answer "$id" reused 'another process has this pid now'
    elif [ "$1" = Z ] || [ "$1" = X ]; then answer "$id" zombie 'it has ended already, and its parent has not looked'
    elif [ $(($7 & 2097152)) != 0 ]; then answer "$id" refused 'it is a part of the kernel'
    elif [ "$3" = "$leader" ]; then answer "$id" refused 'it is the probe itself'
    elif [ "$whose" != "$uid" ]; then answer "$id" refused 'it belongs to another user'
    elif kill "-$number" "$pid"; then answer "$id" sent
    elif [ -d "/proc/$pid" ]; then answer "$id" refused 'it belongs to another user'
    else answer "$id" gone 'no such process'
    fi
}

renamed() { # "uid:name": of the last word on a user, who is told anew with all processes
    case $1 in "${1%%:*}:${1%%:*}") return ;; esac
    names="$names $1" full=1
    case $1 in "$uid:"*) user=${1#*:}; hello ;; esac
}

own() {     # pid: our number when it is ours, by its real or its saved owner
    while read -r key real line saved line; do
        case $key in Uid:) case " $real $saved " in *" $uid "*) echo "$uid" ;; esac ;; esac
    done <"/proc/$1/status"
}

retime() {  # hundredths became the pace
    hello
    end_one "$timer" TERM
    [ -z "$timer" ] || wait "$timer"
    [ -z "$pending" ] || return
    clock
    if [ $((due - now)) -gt "$pace" ]; then due=$((now + pace)); fi
    [ "$due" -gt "$now" ] || due=$((now + 1))
    alight
}

main() {
    clock
    if [ -n "$sockets" ]; then
        error host failed pipe 0 '"the pipes of this sh are sockets; install python3 there, or dash, bash, busybox or mksh"'
        finish
    fi
    exec 4>/proc/self/fd/0 || finish
    if ! awk 'BEGIN { exit 0 }' </dev/null; then
        error host failed awk 0 '"this node has neither python3 nor awk"'
        finish
    fi
    trap finish PIPE
    # What reads nvidia-smi's output may not hold much of it, should it never end.
    room=:
    # shellcheck disable=SC3045  # where there is no such limit, there is none
    if (ulimit -v 262144); then room='ulimit -v 262144'; fi
    nl='
'
    contained=$(readlink /proc/self/ns/pid) absent=''
    [ "$contained" != 'pid:[4026531836]' ] || contained=''
    uid=$(id -u) arch=$(uname -m) tick=$(getconf CLK_TCK) page=$(getconf PAGESIZE)
    : "${tick:=100}" "${page:=4096}"
    # A number until the name service says it, where this machine does not know it by itself.
    unnamed='' user=$(own_name)
    [ -n "$user" ] || unnamed=" $uid" user=$uid
    version=$(readlink "/proc/$$/exe")
    version=${version##*/}
    names=" $uid:$user"
    n=0 sequence=0 every=100 tries=0 smi_limit=6000 smi_due=0 apps_due=0 more_due=0 slow_due=0 focus=0
    smi_job='' who_job='' slow_job='' name_job='' csv='' csv_last='' apps='' apps_last='' slow='' slow_last=''
    details='' details_last='' details_new='' smi_worked='' has_mig='' newer=1 known='' minors=''
    csv_new='' apps_new='' pids='' told='' asked='' new='' facts='' pending='' full=1
    # shellcheck disable=SC2153
    hundredths "$INTERVAL"
    [ $cs != 0 ] || cs=100
    interval=$cs pace=$cs
    clock
    start=$now due=$now
    full_at=$((now + 100 + (${#NODE} * 977 + $$) % 6000))
    find_smi
    look
    rare
    hello
    [ -n "$smi" ] || smi_due=6000
    tick
    advance
    while read -r what rest; do
        case $what in
        tick)
            if [ "$rest" = $sequence ]; then
                wait "$timer"
                clock
                if [ "$now" -lt $((due - 2)) ]; then alight; else tick; fi
            fi
            ;;
        late)
            wait "$alarm"
            if [ "$rest" = $n ] && [ -n "$pending" ]; then emit; plan; fi
            ;;
        row) rows="$rows,$rest" ;;
        noise) noise="$noise$rest$nl" ;;
        know) known="$known$rest," ;;
        drop) case ",$fields,$more," in *",$rest,"*) drops="$drops $rest" ;; esac ;;
        flood) flood=1 ;;
        pid) smi_pid=$rest ;;
        status) status=$rest smi_pid='' ;;
        slow) slow=$rest slow_last=$rest ;;
        who)
            # One environment string holds 128 kB; a turn of `who` stays below that.
            [ ${#facts} -gt 120000 ] || { facts="$facts$rest$nl" told="$told ${rest%% *} "; }
            ;;
        unnamed) names="$names $rest:$rest" unnamed="$unnamed $rest" ;;
        user) renamed "$rest" ;;
        end)
            case $rest in
            query) answered ;;
            apps) users ;;
            more) detailed ;;
            help) learned ;;
            files) numbered ;;
            list) named ;;
            table) tabled ;;
            slow) wait "$slow_job"; slow_job='' ;;
            who) wait "$who_job"; who_job='' asked='' ;;
            name) wait "$name_job"; name_job='' ;;
            esac
            ;;
        interval) hundredths "$rest"; [ $cs = 0 ] || interval=$cs; [ $focus != 0 ] || pace=$interval; retime ;;
        focus) hundredths "$rest"; focus=$cs pace=$interval; [ $cs = 0 ] || pace=$cs; retime ;;
        full) full=1 ;;
        signal) deliver "$rest" ;;
        bad) answer "$rest" bad 'no such command' ;;
        eof)
            clock
            send "{\"t\":\"bye\",\"at\":$up,\"why\":\"stdin closed\"}"
            finish
            ;;
        esac
        advance
        [ -z "$smi_job$slow_job$who_job" ] || patrol
    done
    finish
}

exec 3<&0
trap finish TERM HUP INT
# shellcheck disable=SC2317
{ watch <&3 3<&- | { main 3<&-; finish; }; } &
exec 3<&- </dev/null
wait $!
