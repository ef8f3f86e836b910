# shellcheck shell=sh
# The main loop. Last part of the sh probe; base.sh, the first part, explains the design.
send_sample() {    # sends one sample with the sections that are there
    clock
    [ -n "$csv_new$full" ] || csv=''
    [ -n "$apps_new$full" ] || apps=''
    [ -n "$details_new$full" ] || details=''
    unseen=''
    [ -z "$csv" ] || list_unseen
    # An old dash does not export variables set in front of a function call.
    out=$(export n unseen slow csv csv_at details apps apps_at pids facts && sample)
    send "${out#*"$nl"}"
    if [ -n "$csv" ]; then
        # Facts already sent are kept; new processes, and pids that were reused, are looked up.
        before=$sent_facts sent_facts=' ' new='' facts=''
        for key in ${out%%"$nl"*}; do
            case "$before " in *" $key "*) sent_facts="$sent_facts$key " ;; *)
                case " $requested " in *" ${key%:*} "*) ;; *) new="$new ${key%:*}" ;; esac
                ;;
            esac
        done
    fi
    csv=$csv_last apps=$apps_last details=$details_last
    csv_new='' apps_new='' details_new='' slow='' full='' pending=''
    # Another interval holds once the values that came with it are sent.
    [ -z "$hello_due" ] || { hello_due=''; hello; }
}

schedule_next() {    # schedules the next tick; ticks missed meanwhile count as dropped
    clock
    if [ "$n" = 1 ] && [ "$period" -ge 30 ]; then
        due=$((start + 30))
        [ "$due" -gt "$now" ] || due=$((now + 1))
    else
        last=$due
        due=$((start + ((now - start) / period + 1) * period))
        if [ "$n" -gt 2 ] && [ $((due - last)) -gt $((period + period / 2)) ]; then n=$((n + (due - last) / period - 1)); fi
        if [ $((due - now)) -lt $((period * 3 / 10)) ]; then due=$((due + period)); fi
    fi
    set_timer
}

set_timer() {  # starts the timer; it fires every second while a job is running
    sequence=$((sequence + 1))
    left=$((due - now))
    if [ $left -gt 100 ] && [ -n "$smi_job$slow_job$facts_job" ]; then left=100; fi
    after $left "tick $sequence"
    timer=$!
}

start_job() {     # kind, command
    kind=$1
    shift
    "$@" >&4 </dev/null &
    clock
    case $kind in
    smi) smi_job=$! smi_since=$now smi_reported_at=0 rows='' noise='' drops='' flood='' late='' smi_pid='' status='' ;;
    slow) slow_job=$! slow_since=$now slow_reported_at=0 ;;
    facts) facts_job=$! facts_since=$now facts_reported_at=0 ;;
    name) name_job=$! ;;
    esac
}

error() {   # source, code, call, hundredths, message as JSON or nothing: sends an error frame
    seconds "$4"
    clock
    scope=host
    [ "$2" != lost ] || scope=device
    send "{\"t\":\"error\",\"at\":$up,\"source\":\"$1\",\"scope\":\"$scope\",\"code\":\"$2\",\"call\":\"$3\",\"for\":$sec${5:+,\"message\":$5}}"
}

is_blocked() {    # pid: returns 0 if a process, or one that it has started, waits in the kernel and cannot be interrupted
    stat='' below=''
    IFS= read -r stat <"/proc/$1/stat"
    case ${stat##*\) } in D*) return 0 ;; esac
    # The file has no end of line.
    IFS= read -r below <"/proc/$1/task/$1/children"
    for child in $below; do
        if is_blocked "$child"; then return 0; fi
    done
    return 1
}

report_if_slow() {   # source, call, since, last report, habit: reports a job that takes longer than usual; returns 0 if it did
    [ $((now - $3)) -ge $((300 + $5 * 3 / 2)) ] && [ $((now - $4)) -ge 195 ] || return 1
    code=slow
    [ $((now - $3 - $5)) -lt 6000 ] || code=stuck
    if [ "$1" = nvidia-smi ]; then
        if is_blocked "$smi_job"; then : "${smi_blocked:=$now}"; else smi_blocked=''; fi
        # The first call may load the driver.
        if [ -z "$smi_worked" ]; then
            [ $code = stuck ] || code=starting
        elif [ -n "$smi_blocked" ] && [ $((now - smi_blocked)) -ge 1000 ]; then
            code=stuck
        fi
        # What was stuck is so until something answers.
        [ -z "$smi_stuck" ] || code=stuck
        [ $code != stuck ] || smi_stuck=1
    fi
    error "$1" $code "$2" $((now - $3)) ''
}

note_habit() {    # kind: keeps how long nvidia-smi takes for a query of this kind, the longest of late
    clock
    took=$((now - smi_since)) habit=0
    [ -z "$late" ] || return 0
    eval "habit=\$((\${habit_$1:-0} * 4 / 5))"
    # shellcheck disable=SC2154
    [ $took -lt $habit ] || habit=$took
    [ $habit -le 6000 ] || habit=6000
    eval "habit_$1=$habit"
    longest=$((longest * 4 / 5))
    [ $longest -ge $habit ] || longest=$habit
}

check_jobs() {  # reports slow and stuck jobs and kills nvidia-smi at its time limit
    clock
    if [ -n "$smi_job" ]; then
        if report_if_slow nvidia-smi "$smi_call" "$smi_since" "$smi_reported_at" $smi_habit; then smi_reported_at=$now csv_last='' csv=''; fi
        if [ $((now - smi_since)) -gt $smi_limit ] && [ -n "$smi_pid" ]; then late=1; signal_own "$smi_pid" KILL; fi
    fi
    if [ -n "$slow_job" ] && report_if_slow host.slow df "$slow_since" "$slow_reported_at" 0; then slow_reported_at=$now; fi
    if [ -n "$facts_job" ] && report_if_slow host.slow cmdline "$facts_since" "$facts_reported_at" 0; then facts_reported_at=$now; fi
}

start_smi() {     # kind, name of the call, options
    smi_call=$2 smi_blocked=''
    kind=$1
    # A query of a new kind loads the driver as the others do.
    eval "smi_habit=\${habit_$kind:-$longest}"
    smi_limit=$((smi_habit + 6000))
    shift 2
    start_job smi run_smi "$kind" "$@"
}

query_devices() { start_smi query 'nvidia-smi --query-gpu' "--query-gpu=$fields" --format=csv,noheader,nounits; }

query_more() { start_smi more 'nvidia-smi --query-gpu' "--query-gpu=$more" --format=csv,noheader,nounits; }

smi_succeeded() {   # after nvidia-smi has ended: returns 0 if its output is complete
    wait "$smi_job"
    smi_job='' smi_pid=''
    [ -z "$late$flood" ]
}

report_failure() {  # source: reports why nvidia-smi failed
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
        [ "$1" != nvidia-smi ] || smi_stuck=1
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

remove_fields() { # list of fields, fields to remove: sets `list`
    list=,$1,
    shift
    for field in "$@"; do
        case $list in *",$field,"*) list=${list%%",$field,"*},${list#*",$field,"} ;; esac
    done
    list=${list#,} list=${list%,}
}

json_list() {  # comma-separated words: sets `quoted` to a JSON list
    quoted='' list=$1
    while :; do
        case $list in *,*) quoted="$quoted\"${list%%,*}\"," list=${list#*,} ;; *) break ;; esac
    done
    quoted="[$quoted\"$list\"]"
}

choose_interval() {  # minimum, hundredths of a query: sets `choice`; a slow nvidia-smi is idle for at least as long as it runs
    choice=$1
    [ "$2" -gt 200 ] || return 0
    for choice in 500 1000 1500 2000 3000 4000 6000 8000 12000; do [ $choice -lt $((2 * $2)) ] || break; done
}

adapt_interval() {   # sets the query interval: longer without devices or persistence mode: each query loads the driver
    least=100
    [ -n "$rows" ] || least=500
    case $rows in *', Disabled, P'*) case $fields in *,persistence_mode,pstate,*) least=500 ;; esac ;; esac
    took=$((now - smi_since))
    choose_interval $least $took
    [ $took -le 200 ] || [ $smi_due -ge $((now + took)) ] || smi_due=$((now + took))
    smi_due=$((smi_due + choice - every))
    every=$choice
    smi_worked=1 smi_stuck=''
    # How old values may be follows the longest query of late: the next one may take as long.
    # shellcheck disable=SC2154
    choose_interval $least "${habit_query:-0}"
    [ "$choice" -ge "$every" ] || choice=$every
    [ "$choice" = "$announced" ] || announced=$choice hello_due=1
}

on_query_end() {    # after the device query
    if ! smi_succeeded; then
        report_failure nvidia-smi
        return
    fi
    if [ -n "$drops" ] && [ $tries -lt 40 ]; then
        tries=$((tries + 1))
        # shellcheck disable=SC2086
        remove_fields $fields $drops
        fields=$list
        if [ -n "$known" ]; then query_devices; else query_help query; fi
        return
    fi
    tries=0
    # A device without a handle has a message in place of its row, and it may be the last line. None is a list, too.
    case $rows$noise in
    ,* | *'nable to determine the device handle'* | *'o devices were found'*) ;;
    *)
        report_failure nvidia-smi
        return
        ;;
    esac
    has_rows=$rows
    clock
    adapt_interval
    json_list "$fields"
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
    # The other queries end at the same device.
    [ -z "$has_rows" ] || next_smi_query
}

query_help() {   # query|details: nvidia-smi names one unknown field at a time, its help lists all known ones
    known=, help_for=$1
    start_smi help 'nvidia-smi --help-query-gpu' --help-query-gpu
}

on_help_end() { # after the help; without help, fields are removed one by one
    wait "$smi_job"
    smi_job='' smi_pid=''
    if [ "$known" != , ]; then
        keep_known "$fields"
        [ -z "$list" ] || fields=$list
        keep_known "$more"
        [ -z "$list" ] || more=$list
    fi
    if [ "$help_for" = query ]; then query_devices; else query_more; fi
}

keep_known() {    # list of fields: sets `list` to the known ones
    rest=$1, list=''
    while [ -n "$rest" ]; do
        case $known in *",${rest%%,*},"*) list="$list,${rest%%,*}" ;; esac
        rest=${rest#*,}
    done
    list=${list#,}
}

find_minors() {    # sets `minors` to the device file numbers by PCI id, from /proc
    list=''
    for folder in /proc/driver/nvidia/gpus/*; do
        id=${folder##*/}
        case $id in *[!0-9a-fA-F:.]*) continue ;; esac
        while read -r key word value; do
            case $key$word$value in
            DeviceMinor:*[!0-9]* | DeviceMinor:0?*) ;;
            DeviceMinor:[0-9]*) list="$list,\"$id\":$value" ;;
            esac
        done <"$folder/information"
    done
    [ -z "$list" ] || minors=",\"minors\":{${list#,}}"
}

on_files_end() {    # after nvidia-smi -q, used if /proc has no device file numbers
    wait "$smi_job"
    smi_job='' smi_pid='' minors=",\"minors\":{${rows#,}}"
    if [ -n "$more" ]; then query_more; else query_slices; fi
}

next_smi_query() {  # starts the next query that is due; the slow group first, which has the slices
    clock
    if [ "$now" -ge "$more_due" ]; then
        more_due=$((now + 990))
        more_json='' more_failed=''
        [ -n "$minors" ] || find_minors
        if [ -z "$minors" ]; then start_smi files 'nvidia-smi -q' -q; elif [ -n "$more" ]; then query_more; else query_slices; fi
    elif [ "$now" -ge "$apps_due" ]; then
        apps_due=$((now + 190))
        [ "$every" -le 200 ] || apps_due=$((now + every - 10))
        start_smi apps 'nvidia-smi --query-compute-apps' --query-compute-apps=gpu_uuid,pid,used_memory,process_name \
            --format=csv,noheader,nounits
    fi
}

on_more_end() {    # after the query for the slow group; if it failed, the rest of the group is sent
    if ! smi_succeeded; then
        report_failure nvidia-smi.slow
        more_failed=1
        query_slices
        return
    fi
    if [ -n "$drops" ]; then
        tries=$((tries + 1))
        # shellcheck disable=SC2086
        remove_fields $more $drops
        more=$list
        if [ $tries -ge 40 ]; then
            # This version is too old for most of them.
            if [ -n "$newer" ]; then more=$more_old; else more=''; fi
            newer='' tries=0
        fi
        if [ -z "$known" ]; then query_help details; elif [ -n "$more" ]; then query_more; else query_slices; fi
        return
    fi
    tries=0
    if [ -z "$rows" ]; then
        report_failure nvidia-smi.slow
        more_failed=1
        query_slices
        return
    fi
    json_list "$more"
    more_json=",\"more\":{\"columns\":$quoted,\"rows\":[${rows#,}]}"
    query_slices
}

query_slices() {  # lists the slices if there are any
    if [ -n "$has_mig" ]; then start_smi list 'nvidia-smi -L' -L; else publish_slow; fi
}

publish_slow() {    # the slow group is complete
    clock
    details="$minors$more_json"
    [ -n "$more_failed" ] || details=",\"slow\":$up$details"
    details_last=$details details_new=1 csv=$csv_last csv_new=1
    next_smi_query
}

list_succeeded() {  # after a list: a non-zero status may be a warning only
    smi_succeeded && { [ "$status" = 0 ] || [ -n "$rows" ]; }
}

on_list_end() {   # after the list of slices
    if ! list_succeeded; then
        report_failure nvidia-smi.slow
        publish_slow
        return
    fi
    slices=${rows#,}
    start_smi table nvidia-smi
}

on_table_end() {  # after the table; the slices are known without it
    list_succeeded || report_failure nvidia-smi.slow
    more_json="$more_json,\"mig\":{\"list\":[$slices],\"table\":[${rows#,}]}"
    publish_slow
}

on_apps_end() {   # after the process query
    # Status 14 warns of a corrupted infoROM and 15 of a lost device; the rows are still valid.
    if ! smi_succeeded || { [ "$status" != 0 ] && [ "$status" != 14 ] && [ -z "$rows" ]; }; then
        report_failure nvidia-smi.processes
        return
    fi
    clock
    apps=",${rows#,}" apps_at=$up apps_new=1 pids='' ambiguous=''
    apps_last=$apps
    while :; do
        row=${rows#,\"*, }
        [ "$row" != "$rows" ] || break
        pid=${row%%,*}
        case $pid in
        '' | *[!0-9]* | 0*) ;;
        *)
            case "$pids$ambiguous " in
            *" $pid "*) ;;
            *)
                # In another PID namespace, this may be another process than the one that the driver means.
                if [ -n "$other_pids" ] && [ -e "/proc/$pid/stat" ] && ! holds_device "$pid"; then
                    ambiguous="$ambiguous $pid"
                else
                    pids="$pids $pid"
                    case "$sent_facts $new $requested " in *" $pid:"* | *" $pid "*) ;; *) new="$new $pid" ;; esac
                fi
                ;;
            esac
            ;;
        esac
        # An old dash does not remove single quotes between double ones.
        row=${rows#*'","'}
        [ "$row" != "$rows" ] || break
        rows=,\"$row
    done
}

find_other_pids() {  # sets `other_pids` unless /proc numbers processes as the driver does: it then shows kernel threads
    other_pids=$contained line=''
    case $GTOP_PIDS in own) other_pids='' ;; esac
    if [ -n "$other_pids" ] && read -r line </proc/2/stat; then
        # shellcheck disable=SC2086
        set -- ${line##*\) }
        [ $(($7 & 2097152)) = 0 ] || other_pids=''
    fi
}

holds_device() { # pid: true if the process is seen to have a device file open
    case $(ls -l "/proc/$1/fd") in *'-> /dev/nvidia'*) return 0 ;; esac
    return 1
}

start_due_jobs() { # starts the jobs that are due, and sends the waiting sample once its jobs have ended
    if [ -z "$facts_job" ] && [ -n "$new" ] && [ ${#facts} -lt 40000 ]; then
        # shellcheck disable=SC2086
        set -- $new
        count=$#
        [ $count -le 32 ] || count=32
        batch='' new=''
        for pid in "$@"; do
            if [ $count -gt 0 ]; then batch="$batch $pid" count=$((count - 1)); else new="$new $pid"; fi
        done
        requested=$batch
        # shellcheck disable=SC2086
        start_job facts static_facts $batch
    fi
    if [ -z "$name_job" ] && [ -n "$unnamed" ]; then
        batch=$unnamed unnamed=''
        # shellcheck disable=SC2086
        start_job name resolve_names $batch
    fi
    if [ -n "$pending" ] && [ -z "$smi_job$facts_job" ]; then send_sample; schedule_next; fi
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
    # A full sample has the static facts of all processes.
    [ -z "$full" ] || { new=$pids sent_facts=''; slow=$slow_last; }
    if [ "$now" -ge "$slow_due" ] && [ -z "$slow_job" ]; then
        slow_due=$((now + 1000 - period / 20))
        find_host_devices
        start_job slow slow_facts
    fi
    if [ -z "$smi" ] && [ "$now" -ge "$smi_due" ]; then
        smi_due=$((now + 6000))
        find_smi
        [ -z "$smi" ] || { smi_due=$now; hello; }
    fi
    slack=$((period / 10))
    [ $slack -le 5 ] || slack=5
    if [ -n "$smi" ] && [ -z "$smi_job" ] && [ "$now" -ge $((smi_due - slack)) ]; then
        smi_due=$((now + every))
        query_devices
        wait_for=$((period / 4))
        [ $wait_for -le 30 ] || wait_for=30
        after $wait_for "late $n"
        wait_timer=$!
    elif [ -n "$smi_job" ] || [ -n "$facts_job" ]; then
        # The last query is still running: do not wait for it.
        send_sample
        schedule_next
    fi
}

answer() {  # id, result, why
    clock
    send "{\"t\":\"answer\",\"id\":$1,\"at\":$up,\"result\":\"$2\"${3:+,\"why\":\"$3\"}}"
}

send_signal() { # "id pid start signal": signals the process if pid and start time match
    # shellcheck disable=SC2086
    set -- $1
    id=$1 pid=$2 expected_start=$3 number=$4 line=''
    case $number in
    [1-9] | [12][0-9] | 3[01]) ;;
    *) answer "$id" bad 'not a signal that may be sent'; return ;;
    esac
    if [ -z "$leader" ]; then answer "$id" refused '/proc belongs to another PID namespace'; return; fi
    if [ "$pid" -le 1 ]; then answer "$id" refused 'pid 1 is never signalled'; return; fi
    case "$ambiguous " in
    *" $pid "*)
        answer "$id" refused 'another process may have this pid here: the driver counts in another PID namespace'
        return
        ;;
    esac
    owner="$uid"
    [ "$uid" = 0 ] || owner=$(real_or_saved_uid "$pid")
    # A process name may contain a newline. From here on no process is started.
    while IFS= read -r part || [ -n "$part" ]; do line="$line $part"; done <"/proc/$pid/stat"
    if [ -z "$line" ]; then
        case $(kill -0 "$pid" 2>&1) in
        *ermitted*) answer "$id" refused 'the node hides this process (hidepid)' ;;
        *) answer "$id" gone 'no such process' ;;
        esac
        return
    fi
    # shellcheck disable=SC2086
    set -- ${line##*\) }
    if [ "${20}" != "$expected_start" ]; then answer "$id" reused 'another process has this pid now'
    elif [ "$1" = Z ] || [ "$1" = X ]; then answer "$id" zombie 'it is a zombie: it has exited and waits to be reaped'
    elif [ $(($7 & 2097152)) != 0 ]; then answer "$id" refused 'it is a kernel thread'
    elif [ "$3" = "$leader" ]; then answer "$id" refused 'it is the probe itself'
    elif [ "$owner" != "$uid" ]; then answer "$id" refused 'it belongs to another user'
    elif kill "-$number" "$pid"; then answer "$id" sent
    elif [ -d "/proc/$pid" ]; then answer "$id" refused 'it belongs to another user'
    else answer "$id" gone 'no such process'
    fi
}

on_user_name() { # "uid:name": stores a user name and requests a full sample
    case $1 in "${1%%:*}:${1%%:*}") return ;; esac
    names="$names $1" full=1
    case $1 in "$uid:"*) user=${1#*:}; hello ;; esac
}

real_or_saved_uid() {     # pid: prints this user's uid if it is the real or saved uid of the process
    while read -r key real line saved line; do
        case $key in Uid:) case " $real $saved " in *" $uid "*) echo "$uid" ;; esac ;; esac
    done <"/proc/$1/status"
}

set_focus() {   # samples every `cs` hundredths while a user looks closely, or ends that; each sample costs several processes
    clock
    focus=$cs focus_end=$((now + focus_timeout)) period=$interval
    if [ $focus != 0 ]; then
        [ $focus -ge 25 ] || focus=25
        [ $focus -le "$interval" ] || focus=$interval
        period=$focus
    fi
    apply_interval
}

apply_interval() {  # applies a new period: sends hello and restarts the timer
    hello
    signal_own "$timer" TERM
    [ -z "$timer" ] || wait "$timer"
    [ -z "$pending" ] || return
    clock
    if [ $((due - now)) -gt "$period" ]; then due=$((now + period)); fi
    [ "$due" -gt "$now" ] || due=$((now + 1))
    set_timer
}

main() {
    clock
    if [ -n "$sockets" ]; then
        error host failed pipe 0 '"this sh uses sockets as pipes; install python3, dash, bash, busybox or mksh"'
        finish
    fi
    exec 4>/proc/self/fd/0 || finish
    if ! awk 'BEGIN { exit 0 }' </dev/null; then
        error host failed awk 0 '"this node has neither python3 nor awk"'
        finish
    fi
    trap finish PIPE
    # Limits the memory of the awk that reads nvidia-smi, whose output might never end.
    limit_memory=:
    # shellcheck disable=SC3045  # not all shells have ulimit -v
    if (ulimit -v 262144); then limit_memory='ulimit -v 262144'; fi
    nl='
'
    contained=$(readlink /proc/self/ns/pid) absent=''
    [ "$contained" != 'pid:[4026531836]' ] || contained=''
    find_other_pids
    uid=$(id -u) arch=$(uname -m) tick=$(getconf CLK_TCK) page=$(getconf PAGESIZE)
    : "${tick:=100}" "${page:=4096}"
    # The uid, until the name service has answered for a user who is not in /etc/passwd.
    unnamed='' user=$(local_user_name)
    [ -n "$user" ] || unnamed=" $uid" user=$uid
    version=$(readlink "/proc/$$/exe")
    version=${version##*/}
    names=" $uid:$user"
    n=0 sequence=0 every=100 announced=100 hello_due='' tries=0 smi_limit=6000 smi_habit=0 longest=0 smi_stuck='' smi_blocked='' smi_due=0 apps_due=0 more_due=0 slow_due=0 focus=0 focus_timeout=6500 focus_end=0
    smi_job='' facts_job='' slow_job='' name_job='' csv='' csv_last='' apps='' apps_last='' slow='' slow_last=''
    details='' details_last='' details_new='' smi_worked='' has_mig='' newer=1 known='' minors=''
    csv_new='' apps_new='' pids='' ambiguous='' sent_facts='' requested='' new='' facts='' pending='' full=1
    # shellcheck disable=SC2153
    hundredths "$INTERVAL"
    [ $cs != 0 ] || cs=100
    interval=$cs period=$cs
    clock
    start=$now due=$now
    full_at=$((now + 100 + (${#NODE} * 977 + $$) % 6000))
    find_smi
    find_host_devices
    find_pci_devices
    hello
    [ -n "$smi" ] || smi_due=6000
    tick
    start_due_jobs
    while read -r what rest; do
        case $what in
        tick)
            if [ "$rest" = $sequence ]; then
                wait "$timer"
                clock
                # A focus that no command ends, because the connection is lost, ends by itself.
                if [ $focus != 0 ] && [ "$now" -ge $focus_end ]; then focus=0 period=$interval; hello; fi
                if [ "$now" -lt $((due - 2)) ]; then set_timer; else tick; fi
            fi
            ;;
        late)
            wait "$wait_timer"
            if [ "$rest" = $n ] && [ -n "$pending" ]; then send_sample; schedule_next; fi
            ;;
        row) rows="$rows,$rest" ;;
        noise) noise="$noise$rest$nl" ;;
        know) known="$known$rest," ;;
        drop) case ",$fields,$more," in *",$rest,"*) drops="$drops $rest" ;; esac ;;
        flood) flood=1 ;;
        pid) smi_pid=$rest ;;
        status) status=$rest smi_pid='' ;;
        slow) slow=$rest slow_last=$rest ;;
        facts)
            # An environment string holds 128 kB; the facts of one job stay below that.
            [ ${#facts} -gt 120000 ] || { facts="$facts$rest$nl" sent_facts="$sent_facts ${rest%% *} "; }
            ;;
        unnamed) names="$names $rest:$rest" unnamed="$unnamed $rest" ;;
        user) on_user_name "$rest" ;;
        end)
            case $rest in slow | facts | name) ;; *) note_habit "$rest" ;; esac
            case $rest in
            query) on_query_end ;;
            apps) on_apps_end ;;
            more) on_more_end ;;
            help) on_help_end ;;
            files) on_files_end ;;
            list) on_list_end ;;
            table) on_table_end ;;
            slow) wait "$slow_job"; slow_job='' ;;
            facts) wait "$facts_job"; facts_job='' requested='' ;;
            name) wait "$name_job"; name_job='' ;;
            esac
            ;;
        interval) hundredths "$rest"; [ $cs = 0 ] || interval=$cs; [ $focus != 0 ] || period=$interval; apply_interval ;;
        focus) hundredths "$rest"; set_focus ;;
        full) full=1 ;;
        signal) send_signal "$rest" ;;
        bad) answer "$rest" bad 'no such command' ;;
        eof)
            clock
            send "{\"t\":\"bye\",\"at\":$up,\"why\":\"stdin closed\"}"
            finish
            ;;
        esac
        start_due_jobs
        [ -z "$smi_job$slow_job$facts_job" ] || check_jobs
    done
    finish
}

exec 3<&0
trap finish TERM HUP INT
# shellcheck disable=SC2317
{ read_commands <&3 3<&- | { main 3<&-; finish; }; } &
exec 3<&- </dev/null
wait $!
