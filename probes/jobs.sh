# shellcheck shell=sh
# Jobs: what can hang, in the background. Each writes lines to the bus and ends with `end KIND`.
# Shared by all awk programs here: a JSON string without control characters.
quote='function q(s,  o, c, i) {
    gsub(/[\001-\037\177]/, " ", s); gsub(/[^ -~]/, "?", s)
    if (s !~ /["\\]/) return "\"" s "\""
    for (i = 1; i <= length(s); i++) { c = substr(s, i, 1); if (c == "\"" || c == "\\") o = o "\\"; o = o c }
    return "\"" o "\""
}'

fields=index,uuid,name,pci.bus_id,driver_version,persistence_mode,pstate,temperature.gpu,temperature.memory,utilization.gpu
fields=$fields,utilization.memory,memory.total,memory.used,memory.free,power.draw,power.limit,enforced.power.limit
fields=$fields,clocks.current.sm,clocks.current.memory,clocks.max.sm,clocks.max.memory,fan.speed
fields=$fields,clocks_throttle_reasons.active,ecc.mode.current,ecc.errors.corrected.volatile.total
fields=$fields,ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.aggregate.total
fields=$fields,ecc.errors.uncorrected.aggregate.total,retired_pages.pending,compute_mode,mig.mode.current
fields=$fields,pcie.link.gen.current,pcie.link.width.current,pcie.link.gen.max,pcie.link.width.max

# Queried with the slow group: the fields of all versions, and those added after 465.
more_old=uuid,display_active,clocks.current.graphics,clocks.current.video,clocks.max.graphics,power.default_limit
more_old=$more_old,power.min_limit,power.max_limit,retired_pages.single_bit_ecc.count,retired_pages.double_bit.count
more=$more_old,utilization.encoder,utilization.decoder,utilization.jpeg,utilization.ofa,compute_cap,power.draw.average
more=$more,power.draw.instant,memory.reserved,remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending
more=$more,remapped_rows.failure,gpu_recovery_action,fabric.state,fabric.health.summary,temperature.gpu.tlimit
more=$more,ecc.errors.uncorrected.aggregate.sram.thresholdExceeded

find_smi() {
    smi=$(command -v nvidia-smi)
    for folder in /usr/bin /usr/local/bin /usr/local/nvidia/bin /usr/lib/wsl/lib /run/current-system/sw/bin /opt/bin \
        /home/kubernetes/bin/nvidia/bin; do
        case $smi in /*) break ;; esac
        [ ! -x $folder/nvidia-smi ] || smi=$folder/nvidia-smi
    done
    case $smi in /*) ;; *) smi= ;; esac
}

# Writes `pid N` of nvidia-smi, `row`, `noise` and `drop FIELD` from its output, `know FIELD` from its help, `status N`.
run_smi() {     # query|apps|more|help|files|list|table, option or none, option or none
    what=$1
    shift
    {
        "$smi" "$@" 2>&1 </dev/null 4>&- &
        echo "pid $!" >&4
        wait $!
        echo "status $?" >&4
    } | { $limit_memory; exec awk -v what="$what" -v option="$1" "$quote"'
        BEGIN {
            commas = what == "apps" ? 3 : gsub(/,/, ",", option); bytes_left = 100000
            max_rows = what == "query" || what == "more" ? 64 : 1024
            # A process name can be of any length and must not crowd out other rows.
            max_length = what == "apps" ? 240 : 1024
        }
        {
            bytes += length($0) + 1
            if (bytes > 1048576) { print "flood"; exit }
            gsub(/[\001-\037\177]/, "")
            sub(/^ +/, ""); sub(/ +$/, "")
            if (what == "help") {
                n = /^"/ ? split($0, part, "\"") : 0
                for (i = 2; i < n; i += 2) if (part[i] ~ /^[a-zA-Z0-9_.]+$/) { printf "know %s\n", part[i]; fflush() }
                next
            }
            if (what == "files") {
                if (/^GPU [0-9A-Fa-f:.]+$/) pci = $2
                else if (pci != "" && /^Minor Number +: [0-9]+$/ && rows++ < 64) { printf "row \"%s\":%d\n", pci, $NF; fflush() }
                next
            }
            if (what == "list" || what == "table") {
                if (/MIG devices:/) within = 1
                if (what == "list" ? /^(GPU|MIG) / : within && /^\| *[0-9]/) {
                    row = q(substr($0, 1, 200)); bytes_left -= length(row) + 1
                    if (rows < max_rows && bytes_left > 0) { rows++; printf "row %s\n", row; fflush() }
                }
                next
            }
            if ($0 == "" || /^(index|gpu_uuid|uuid),/) next
            if (/^Field "[a-zA-Z0-9_.]+" is not a valid/) { split($0, part, "\""); printf "drop %s\n", part[2]; fflush() }
            found = gsub(/,/, ",")
            if (found >= commas) {
                row = q(substr($0, 1, max_length)); bytes_left -= length(row) + 1
                if (rows < max_rows && bytes_left > 0) { rows++; printf "row %s\n", row; fflush() }
            } else if (noise++ < 64) { printf "noise %s\n", q(substr($0, 1, 200)); fflush() }
        }
        '; }
    echo "end $what"
}

slow_facts() {
    temperature=null
    for hwmon in /sys/class/hwmon/*; do
        read -r name <"$hwmon/name" || continue
        read -r value <"$hwmon/temp1_input" || continue
        case $name in coretemp | k10temp | zenpower) ;; *) continue ;; esac
        case $value in '' | *[!0-9]*) continue ;; esac
        if [ "$temperature" = null ] || [ "$value" -gt "$temperature" ]; then temperature=$value; fi
    done
    case $temperature in null) ;; *) temperature=$((temperature / 1000)).$((temperature / 100 % 10)) ;; esac
    read -r at line </proc/uptime
    mount_points=$(awk '
        function rank(p) { return index(" / /tmp /dev/shm /scratch /local /var/tmp /home /data ", " " p " ") }
        { delete kind[$2]; kind[$2] = $3; device[$2] = $1 }
        END {
            for (p in kind) {
                k = kind[p]
                if (k !~ /^(ext[234]|xfs|btrfs|zfs|f2fs|jfs|reiserfs|bcachefs)$/ && !(k == "tmpfs" && p ~ /^\/(tmp|dev\/shm)$/) && !(k == "overlay" && p == "/")) continue
                if (p !~ /^[A-Za-z0-9_.\/:@+,=-]+$/ || length(p) > 200 || p ~ /^\/(boot|snap|var\/lib\/)/) continue
                printf "%d %s %s\n", rank(p) ? rank(p) : 999, p, k == "tmpfs" ? p : device[p]
            }
        }' /proc/mounts | sort -k1n -k2 | awk '!seen[$3]++ { print $2 }' | head -n 8)
    # shellcheck disable=SC2086
    { [ -z "$mount_points" ] || df -P -k $mount_points; } | awk -v at="$at" -v temperature="$temperature" "$quote"'
        NR > 1 && NF >= 6 {
            out = out (out ? "," : "") "{\"path\":" q($NF) ",\"total\":" sprintf("%.0f", $(NF - 4) * 1024) ",\"free\":" sprintf("%.0f", $(NF - 2) * 1024) "}"
        }
        END { printf "slow {\"at\":%s,\"temperature\":%s,\"space\":[%s]}\n", at, temperature, out }'
    echo 'end slow'
}

# Writes `facts PID:START {static facts}` for each pid, and `unnamed UID` for uids that are not in /etc/passwd.
static_facts() {     # pids
    for pid in "$@"; do
        echo "$pid"
        tr '\000-\037\177' ' ' <"/proc/$pid/cmdline"
        echo
        if [ -O "/proc/$pid" ]; then
            folder=$(readlink "/proc/$pid/cwd")
            case $folder in *"$nl"*) folder='' ;; esac
            print_line "$folder"
            tr '\000\n' '\n ' <"/proc/$pid/environ" | grep -E '^[A-Z_]*JOB_?ID=[][A-Za-z0-9_.-]{1,64}$|^[A-Z_]*STEP_ID=[0-9-]{1,20}$'
        else
            echo
        fi
        echo
    done | names=$names claims=$claims awk "$quote"'
        function print_facts(pid) {
            printf "facts %s:%s {\"ppid\":%s,\"uid\":%s,\"user\":%s,\"command\":%s,\"cgroup\":%s,\"cwd\":%s%s}\n", pid, start[pid], ppid[pid],
                uid[pid], q(uid[pid] in name ? name[uid[pid]] : uid[pid]), q(substr(command[pid], 1, 512)), q(substr(cgroup[pid], 1, 512)),
                folder[pid] == "" ? "null" : q(substr(folder[pid], 1, 512)), job[pid]
            fflush()
        }
        BEGIN {
            n = split(ENVIRON["names"], known, " ")
            for (i = 1; i <= n; i++) { split(known[i], part, ":"); name[part[1]] = part[2] }
            # For each scheduler: what marks control groups of its jobs, and its variables of job and step.
            n = split(ENVIRON["claims"], known, ",")
            for (i = 1; i <= n; i++) { split(known[i], part, ":"); marks = marks (i > 1 ? "|" : "") part[1]; job_of[part[2]] = i; step_of[part[3]] = i }
            while ((getline line < "/etc/passwd") > 0 && ++read < 5000) { split(line, part, ":"); if (!(part[3] in name)) name[part[3]] = part[1] }
        }
        # For each process: pid, command line, working directory, lines of its environment, an empty line.
        ++field == 1 { pid = $0; job_id = ""; claim = 0; split("", step); next }
        field == 2 { sub(/ +$/, ""); command[pid] = $0; next }
        field == 3 { folder[pid] = $0; next }
        /^[A-Z_]+=/ {
            variable = $0; sub(/=.*/, "", variable); value = substr($0, length(variable) + 2)
            if (variable in step_of) step[step_of[variable]] = value
            else if (variable in job_of && (!claim || job_of[variable] < claim)) { claim = job_of[variable]; job_id = value }
            next
        }
        {
            field = 0
            file = "/proc/" pid "/stat"; stat = ""
            while ((getline line < file) > 0) stat = stat line
            close(file)
            n = split(stat, part, ")"); if (n < 2 || split(part[n], f, " ") < 22) next
            ppid[pid] = f[2]; start[pid] = f[20]
            if (command[pid] == "") { comm = substr(stat, index(stat, "(") + 1); command[pid] = "[" substr(comm, 1, length(comm) - length(part[n]) - 1) "]" }
            file = "/proc/" pid "/status"; uid[pid] = "null"
            while ((getline line < file) > 0) if (line ~ /^Uid:/) { split(line, f, /[ \t]+/); uid[pid] = f[2]; break }
            close(file)
            file = "/proc/" pid "/cgroup"; best = 0; cgroup[pid] = "/"
            while ((getline line < file) > 0) {
                p = line; sub(/^[^:]*:[^:]*:/, "", p); split(line, part, ":")
                if (p == "/") continue
                score = 1 + (part[2] == "" || part[2] == "memory") + 2 * (p ~ /docker|libpod|kubepods|containerd|crio-|lxc|machine\.slice/)
                if (marks != "" && p ~ marks) score = 5 + (p ~ /\/job|slurmstepd\.scope\//) + (p ~ /\/step_/)
                if (score > best) { best = score; cgroup[pid] = p }
            }
            close(file)
            if (cgroup[pid] !~ /\/job_/ && job_id != "") job[pid] = ",\"job\":\"" job_id "\"" (step[claim] == "" ? "" : ",\"step\":\"" step[claim] "\"")
            print_facts(pid)
            if (uid[pid] != "null" && !(uid[pid] in name)) { name[uid[pid]] = uid[pid]; printf "unnamed %s\n", uid[pid]; fflush() }
        }'
    echo 'end facts'
}

# Writes `user UID:NAME` for each uid; a job of its own, because a name service may be slow.
resolve_names() {   # users
    for user in "$@"; do
        line=$(getent passwd "$user")
        line=${line%%:*}
        case $line in '' | *' '*) line=$user ;; esac
        echo "user $user:$line"
    done
    echo 'end name'
}

# Prints this user's name from /etc/passwd.
local_user_name() {
    awk -F: -v uid="$uid" '$3 == uid { print $1; exit }' </etc/passwd
}
