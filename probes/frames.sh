# shellcheck shell=sh
# Builds the frames: hello, and each sample with one awk.
find_host_devices() {    # finds network interfaces, disks and InfiniBand ports
    nets='' disks='' ports=''
    for path in /sys/class/net/*/device; do
        name=${path#/sys/class/net/} name=${name%/device}
        case $name in '*' | *[!A-Za-z0-9._:@-]*) ;; *) nets="$nets $name" ;; esac
    done
    for path in /sys/block/*/device; do
        name=${path#/sys/block/} name=${name%/device}
        case $name in '*' | sr* | fd* | mtd* | *[!A-Za-z0-9._:-]*) ;; *) disks="$disks $name" ;; esac
    done
    for path in /sys/class/infiniband/*/ports/*/counters; do
        name=${path#/sys/class/infiniband/} name=${name%/counters}
        case $name in '*'* | *[!A-Za-z0-9._:/-]*) ;; *) ports="$ports ${name%%/*}/${name##*/}" ;; esac
    done
}

add_nvidia() {    # folder of a PCI function, class: adds it to `expected` if NVIDIA's driver should list it
    case $driver:$2 in
    nvidia:*) ;;
    # A display card without a driver may be too old for it.
    :0x0302*) [ -d "$GTOP_ROOT/proc/driver/nvidia/gpus" ] || return 0 ;;
    *) return 0 ;;
    esac
    information=$GTOP_ROOT/proc/driver/nvidia/gpus/${1##*/}/information
    if [ -r "$information" ]; then
        while read -r key word value; do
            case "$key $word $value" in
            'GPU Excluded: Yes') return 0 ;;
            'Device Minor: '*[!0-9]*) ;;
            # The files of a sandbox are those of its devices; on the machine itself, a driver that does not start makes none.
            'Device Minor: '*) [ -e "$GTOP_ROOT/dev/nvidia$value" ] || [ -e "$GTOP_ROOT/dev/kmsg" ] || return 0 ;;
            esac
        done <"$information"
    fi
    expected="$expected,\"${1##*/}\""
}

# Sets `pci` to the displays and accelerators on the PCI bus and `expected` to those that NVIDIA's driver should list, as
# JSON, and `lacks` to the backends that need the Python probe: NVML, and AMD and TPU devices on that bus.
find_pci_devices() {
    amdgpu='' tpu='' pci='' expected=''
    for path in "$GTOP_ROOT"/sys/bus/pci/devices/*; do
        vendor='' device='' subsystem='' class=''
        read -r vendor <"$path/vendor"
        read -r class <"$path/class"
        case $class:$vendor in 0x03* | 0x0b40* | 0x12* | *:0x1002 | *:0x1ae0 | *:0x1d0f | *:0x1d95) ;; *) continue ;; esac
        [ ! -e "$path/physfn" ] || continue
        read -r device <"$path/device"
        driver=$(readlink "$path/driver")
        driver=${driver##*/}
        case $vendor$device$class$driver in
        *[!A-Za-z0-9_-]*) ;;
        *) pci="$pci,[\"${path##*/}\",\"$vendor\",\"$device\",\"$class\",\"$driver\"]" ;;
        esac
        read -r subsystem <"$path/subsystem_device"
        case $vendor:$class:$device:$subsystem in
        0x1002:0x03* | 0x1002:0x12*) amdgpu=1 ;;
        0x10de:0x03*) add_nvidia "$path" "$class" ;;
        0x1ae0:0x12* | 0x1ae0:*:0x005e:* | 0x1ae0:*:0x006[23f]:* | 0x1ae0:*:0x0076:* | 0x1ae0:*:0x0027:0x004[ef]) tpu=1 ;;
        esac
    done
    lacks=''
    for kind in nvml ${amdgpu:+amdgpu} ${tpu:+tpu}; do
        lacks="$lacks,{\"kind\":\"$kind\",\"state\":\"absent\",\"why\":\"$kind: needs python3\"}"
    done
}

grid_seconds() {    # sets `sec` to $1 hundredths, rounded up to whole ticks
    k=$((($1 - period / 20 + period - 1) / period))
    [ $k -ge 1 ] || k=1
    seconds $((k * period))
}

hello() {
    case $smi in '') state='"absent","why":"nvidia-smi not found","missing":true' ;; *) state='"starting"' ;; esac
    seconds "$period"; intervals="\"host\":$sec"
    grid_seconds 1000; intervals="$intervals,\"host.slow\":$sec"
    grid_seconds "$announced"; intervals="$intervals,\"nvidia-smi\":$sec"
    if [ "$announced" -gt 200 ]; then grid_seconds "$announced"; else grid_seconds 200; fi
    intervals="$intervals,\"nvidia-smi.processes\":$sec"
    if [ "$announced" -gt 1000 ]; then grid_seconds "$announced"; else grid_seconds 1000; fi
    intervals="$intervals,\"nvidia-smi.slow\":$sec"
    # Not with -v, which interprets the backslash of DOMAIN\name.
    frame=$(user=$user awk -v time="$(date +%s.%N)" -v uid="$uid" -v arch="$arch" -v tick="$tick" -v page="$page" \
        -v version="$version" -v state="$state" -v contained="$contained" -v pci="$pci" -v expected="${expected#,}" -v intervals="$intervals" \
        -v lacks="$lacks" -v refusal="$refusal" -v claims="$claims" "$quote"'
        function first_line(file,  line) { line = ""; getline line < file; close(file); return line }
        BEGIN {
            while ((getline line < "/proc/stat") > 0 && line ~ /^cpu/) cpus++
            while ((getline line < "/proc/mounts") > 0) {
                split(line, f, " ")
                if (f[2] != "/proc" || f[3] != "proc") continue
                hide = 0
                if (match(f[4], /hidepid=[a-z0-9]+/)) hide = substr(f[4], RSTART + 8, RLENGTH - 8)
                if (hide == "noaccess") hide = 1; else if (hide == "invisible") hide = 2
                else if (hide == "ptraceable") hide = 4; else if (hide == "off") hide = 0
            }
            if (time !~ /^[0-9]+\.[0-9]+$/) sub(/[^0-9].*/, "", time); else sub(/\..*/, substr(time, index(time, "."), 4), time)
            split(first_line("/proc/uptime"), f, " ")
            printf "{\"t\":\"hello\",\"v\":1,\"probe\":\"sh\",\"at\":%s,\"time\":%s,\"host\":%s", f[1], time, q(first_line("/proc/sys/kernel/hostname"))
            printf ",\"boot\":%s,\"kernel\":%s,\"arch\":%s", q(substr(first_line("/proc/sys/kernel/random/boot_id"), 1, 64)), q(first_line("/proc/sys/kernel/osrelease")), q(arch)
            printf ",\"cpus\":%d,\"tick\":%d,\"page\":%d,\"uid\":%d,\"user\":%s,\"hidepid\":%d,\"version\":%s", (cpus > 1 ? cpus - 1 : 1), tick, page, uid, q(ENVIRON["user"]), hide + 0, q(version)
            printf ",\"commands\":[\"heartbeat\",\"interval\",\"focus\",\"full\",\"signal\"],\"intervals\":{%s}", intervals
            if (refusal != "") printf ",\"sudo\":%s", q(refusal)
            printf "%s%s", contained == "" ? "" : ",\"contained\":true", pci == "" ? "" : ",\"pci\":[" substr(pci, 2) "]"
            n = split(claims, known, ",")
            for (i = 1; i <= n; i++) marks = marks (i > 1 ? "|" : "") substr(known[i], 1, index(known[i], ":") - 1)
            while ((getline line < "/proc/self/cgroup") > 0)
                if (marks != "" && line ~ marks && (group == "" || line ~ /\/job_/)) { group = line; sub(/^[^:]*:[^:]*:/, "", group) }
            if (group != "") printf ",\"cgroup\":%s", q(substr(group, 1, 512))
            # A container and a job may have only some of the devices that they see here.
            else if (expected != "" && contained == "") printf ",\"expected\":[%s]", expected
            printf ",\"backends\":[{\"kind\":\"nvidia-smi\",\"state\":%s}%s]}", state, lacks
        }' </dev/null)
    send "$frame"
}

# Sets `unseen` to the pids that /proc does not show, with the reasons, as JSON. `absent` caches the reasons in the order
# of the pids and is read from its front, because shells search a long string slowly.
list_unseen() {
    found='' unseen='' known=$absent lookups_left=32
    for pid in $ambiguous; do unseen="$unseen,{\"pid\":$pid,\"why\":\"ambiguous\"}"; done
    for pid in $pids; do
        [ ! -e "/proc/$pid/stat" ] || continue
        case $known in
        " $pid:"*)
            why=${known#" $pid:"}
            why=${why%% *}
            known=${known#" $pid:$why"}
            ;;
        *)
            # Each costs a process or two; the others follow with later samples.
            [ $lookups_left -gt 0 ] || continue
            lookups_left=$((lookups_left - 1))
            why=$(unseen_reason "$pid")
            ;;
        esac
        found="$found $pid:$why"
        case $why in
        hidden/*) unseen="$unseen,{\"pid\":$pid,\"why\":\"hidden\",\"uid\":${why#*/},\"user\":\"${why#*/}\"}" ;;
        *) unseen="$unseen,{\"pid\":$pid,\"why\":\"$why\"}" ;;
        esac
    done
    absent=$found
}

unseen_reason() { # pid
    case "$sent_facts " in *" $1:"*) echo gone; return ;; esac
    case $(kill -0 "$1" 2>&1) in
    '' | *ermitted*)
        # shellcheck disable=SC2046,SC2012
        set -- $(ls -dn "/proc/$1")
        echo "hidden${3:+/$3}"
        ;;
    *) if [ -n "$contained" ]; then echo elsewhere; else echo gone; fi ;;
    esac
}

# Prints the pid:start of each process it found on the first line, then the frame. Replaces the shell (exec).
sample() {
    exec awk -v n="$n" -v began="$began" -v full="$full" -v nets="$nets " -v disks="$disks " -v ports="$ports" -v page="$page" "$quote"'
        function first_line(file,  line) { line = ""; getline line < file; close(file); return line }
        function contains(list, name) { return index(list, " " name " ") > 0 }
        function append(list, one) { return list == "" ? one : list "," one }
        # /proc of a container may be malformed.
        function is_integer(v) { return v ~ /^[0-9]+$/ && length(v) < 19 }
        function is_number(v) { return v ~ /^[0-9]+(\.[0-9]+)?$/ && length(v) < 10 }
        function host(  out, line, f, i, k, v, list, count) {
            split(first_line("/proc/uptime"), f, " ")
            out = "\"at\":" f[1] ",\"uptime\":" f[1]
            if (split(first_line("/proc/stat"), f, " ") >= 9) {
                list = ""; for (i = 2; i <= 9 && is_integer(f[i]); i++) list = append(list, f[i])
                if (i == 10) out = out ",\"cpu\":[" list "]"
            }
            if (split(first_line("/proc/loadavg"), f, " ") >= 3 && is_number(f[1]) && is_number(f[2]) && is_number(f[3])) out = out ",\"load\":[" f[1] "," f[2] "," f[3] "]"
            list = ""
            while ((getline line < "/proc/meminfo") > 0) {
                split(line, f, " ")
                if (!is_integer(f[2]) || length(f[2]) > 13) continue
                k = f[1] == "MemTotal:" ? "memory_total" : f[1] == "MemAvailable:" ? "memory_available" : f[1] == "Buffers:" ? "memory_buffers" : f[1] == "SwapTotal:" ? "swap_total" : f[1] == "SwapFree:" ? "swap_free" : ""
                if (k != "") out = out ",\"" k "\":" sprintf("%.0f", f[2] * 1024)
                if (f[1] == "Cached:") list = f[2]
                else if (list != "" && f[1] == "Shmem:") list -= f[2]
                else if (list != "" && f[1] == "SReclaimable:") { list += f[2]; break }
            }
            close("/proc/meminfo")
            if (list != "") out = out ",\"memory_cached\":" sprintf("%.0f", (list > 0 ? list : 0) * 1024)
            list = ""
            for (i = split("cpu memory io", v, " "); i > 0; i--)
                if (split(first_line("/proc/pressure/" v[i]), f, " ") > 1 && f[1] == "some" && is_number(substr(f[2], 7)) && substr(f[2], 7) + 0 <= 100) list = append(list, "\"" v[i] "\":" substr(f[2], 7))
            if (list != "") out = out ",\"pressure\":{" list "}"
            list = ""; count = 0
            while ((getline line < "/proc/net/dev") > 0) {
                if (!match(line, /:[^:]*$/)) continue
                k = substr(line, 1, RSTART - 1); sub(/^ +/, "", k)
                if (contains(nets, k) && split(substr(line, RSTART + 1), f, " ") > 8 && is_integer(f[1]) && is_integer(f[9]) && count++ < 16) list = append(list, "{\"name\":" q(k) ",\"rx\":" f[1] ",\"tx\":" f[9] "}")
            }
            close("/proc/net/dev")
            out = out ",\"net\":[" list "]"; list = ""
            count = split(ports, v, " ")
            for (i = 1; i <= count && i <= 16; i++) {
                k = v[i]; sub(/\//, "/ports/", k); k = "/sys/class/infiniband/" k "/counters/port_"
                line = first_line(k "rcv_data"); k = first_line(k "xmit_data")
                if (line ~ /^[0-9]+$/ && k ~ /^[0-9]+$/) list = append(list, "{\"name\":" q(v[i]) sprintf(",\"rx\":%.0f,\"tx\":%.0f}", line * 4, k * 4))
            }
            if (list != "") out = out ",\"infiniband\":[" list "]"
            list = ""; count = 0
            while ((getline line < "/proc/diskstats") > 0)
                if (split(line, f, " ") > 9 && contains(disks, f[3]) && is_integer(f[6]) && is_integer(f[10]) && count++ < 16) list = append(list, "{\"name\":" q(f[3]) sprintf(",\"read\":%.0f,\"write\":%.0f}", f[6] * 512, f[10] * 512))
            close("/proc/diskstats")
            return out ",\"disk\":[" list "]"
        }
        function processes(pids,  count, pid, i, j, k, file, line, stat, part, f, list, fact, key, text) {
            count = split(ENVIRON["facts"], text, "\n")
            for (i = 1; i <= count; i++) { j = index(text[i], " "); if (j) fact[substr(text[i], 1, j - 1)] = substr(text[i], j + 2) }
            count = split(pids, pid, " "); keys = ""
            for (i = 1; i <= count; i++) {
                file = "/proc/" pid[i] "/stat"; stat = ""
                while ((getline line < file) > 0) stat = stat line
                close(file)
                k = split(stat, part, ")")
                if (k < 2 || split(part[k], f, " ") < 22) continue
                key = pid[i] ":" f[20]; keys = keys " " key
                line = "{\"pid\":" pid[i] ",\"start\":" f[20] sprintf(",\"cpu\":%.0f,\"rss\":%.0f", f[12] + f[13], f[22] * page)
                line = line ",\"state\":\"" f[1] "\",\"threads\":" f[18]
                list = append(list, line (key in fact ? "," fact[key] : "}"))
            }
            return list
        }
        BEGIN {
            body = ",\"host\":{" host() "}"
            if (ENVIRON["slow"] != "") body = body ",\"host_slow\":" ENVIRON["slow"]
            if (ENVIRON["csv"] != "") {
                body = body ",\"backends\":[{\"kind\":\"nvidia-smi\",\"at\":" ENVIRON["csv_at"] ",\"csv\":" ENVIRON["csv"] ENVIRON["details"]
                if (ENVIRON["apps"] != "") body = body ",\"apps\":{\"at\":" ENVIRON["apps_at"] ",\"rows\":[" substr(ENVIRON["apps"], 2) "]}"
                list = processes(ENVIRON["pids"])
                split(first_line("/proc/uptime"), f, " ")
                body = body "}],\"processes\":{\"at\":" f[1] ",\"list\":[" list "]" (ENVIRON["unseen"] == "" ? "" : ",\"unseen\":[" substr(ENVIRON["unseen"], 2) "]") "}"
            }
            split(first_line("/proc/uptime"), f, " ")
            printf "%s\n{\"t\":\"sample\",\"n\":%d,\"at\":%s,\"took\":%d%s%s}\n", keys, n, f[1], (f[1] - began) * 1000, full == "" ? "" : ",\"full\":true", body
        }' </dev/null
}
