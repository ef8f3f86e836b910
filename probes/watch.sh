# shellcheck shell=sh
# Reads commands from stdin; each heartbeat re-arms the dead-man timer.
arm_dead_man() {
    old=$dead_man
    (
        trap 'signal_own "$sleep_pid" TERM; exit' TERM
        sleep "$DEADMAN" &
        sleep_pid=$!
        wait $sleep_pid
        finish
    ) >/dev/null </dev/null &
    dead_man=$!
    if [ -n "$old" ]; then signal_own "$old" TERM; wait "$old"; fi
}

read_commands() {
    arm_dead_man
    while IFS= read -r line; do
        [ ${#line} -le 4096 ] || continue
        id=${line#'{"id":'}
        id=${id%%,*}
        case $id in '' | *[!0-9]* | ?????????????????????*) continue ;; esac
        rest=${line#"{\"id\":$id,\"node\":\"$NODE\",\"verb\":\""}
        case $rest in
        "$line") ;;
        'heartbeat"}') arm_dead_man ;;
        'full"}') echo full ;;
        'interval","seconds":'*'}' | 'focus","seconds":'*'}')
            verb=${rest%%\"*}
            value=${rest#*:}
            value=${value%?}
            case $value in
            '' | *[!0-9.]* | *.*.* | 0[0-9]* | .* | *. | ?????????*) ;;
            *) echo "$verb $value" ;;
            esac
            ;;
        'signal","pid":'*)
            value=${rest#*:}
            pid=${value%%,*} start=${value#*:} number=${value##*:}
            start=${start%%,*} number=${number%?}
            case $pid,$start,$number in
            *[!0-9,]* | ????????????????????????????????*) rest='' ;;
            *) [ "$rest" = "signal\",\"pid\":$pid,\"start\":$start,\"signal\":$number}" ] || rest='' ;;
            esac
            if [ -n "$rest" ]; then echo "signal $id $pid $start $number"; else echo "bad $id"; fi
            ;;
        *) echo "bad $id" ;;
        esac
    done
    echo eof
    sleep 1
    finish
}
