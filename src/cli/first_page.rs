//! What `gtop -h` prints: the ways in, the commands, the options that people use, and where the rest is.

/// The page, for a terminal of 80 columns.
pub(super) const FIRST_PAGE: &str = "\
Watch every accelerator you use, on every node, live

Usage: gtop [OPTIONS] [HOST]... [COMMAND]

Ways in:
  gtop                            this machine
  gtop gpu01 'gpu[03-16]'         nodes over SSH, as your ~/.ssh/config says
  gtop -f hosts.txt               the nodes in a file, one per line
  gtop --slurm                    the nodes of your running Slurm jobs
  gtop --tpu-pod                  the workers of this TPU pod
  gtop http://gpu01:9100/metrics  the page of an exporter, without SSH
  gtop --demo                     simulated nodes, to try it

Commands:
  doctor      why a node does not answer, step by step, with remedies
  trust       verify and store the host keys of new nodes
  login       log in to nodes that ask for a password or a one-time code
  pick        pick free devices, and run a command on them
  record      record what nodes report
  replay      play recordings on the screen
  report      what happened: one page, from recordings or from watching
  export      write the samples of recordings as a table
  serve       serve metrics to Prometheus
  runs        watch training runs
  config      show, check or create the configuration
  completions, fields, man, probe, python: see gtop COMMAND --help

Options:
  -f, --hosts-file FILE   read nodes from a file
      --exclude SET       leave these nodes out: gpu[03,07], or @down
      --slurm             watch the nodes of your Slurm jobs
      --job ID            watch the nodes of this job, whoever owns it
  -l, --login NAME        login user
  -i, --interval SECONDS  seconds between samples (default: 1)
  -1, --once              print one snapshot and exit
      --problems          print what is wrong, where, since when, and what to do
      --json, --csv       print one snapshot as JSON or CSV; --watch goes on
      --filter FILTER     show only what matches: 'util<10 user=ada'
      --record FILE       record as well; the screen can go back in it
      --theme THEME       auto, hot, colour-blind, mono
      --keys SCHEME       keys of gtop, nvitop, nvtop or htop

More:
  gtop --help             every option, with examples
  gtop COMMAND --help     the options of a command
  gtop man | man -l -     the manual page
  ?                       on the screen: keys, and what every sign there means
";
