//! `rmalab launch`: starts a program as the ranks of one world, on one or several hosts.

use std::path::PathBuf;
use std::process::ExitCode;

use rmalab_atomics::{Host, Hosts, Launcher, Topology, part};
use rmalab_job::say;
use rmalab_windows::Config;

use crate::cli::LaunchArgs;
use crate::job::file;
use crate::{Error, Result};

/// The largest length of a hosts file, in bytes.
const LONGEST: u64 = 1 << 20;

/// The end of `--help`.
pub(crate) const MANUAL: &str = "\
Examples:
  rmalab launch -n 4 -- ./program argument
      Four ranks on this host.
  rmalab launch --hosts a:2,b:2 --interface eth0 -- ./program argument
      Two ranks on each of two hosts, by ssh.

Exit codes:
  0    all ranks have ended with 0
  1    the ranks cannot be started
  2    an argument is wrong, or the file of hosts cannot be read
  126  the program cannot be executed
  127  there is no such program
  Otherwise the code of the first rank that failed; 128 and the signal's number after a signal.";

/// Runs the sub-command.
pub(crate) fn run(arguments: &LaunchArgs) -> Result<ExitCode> {
    let code = if arguments.part {
        part()?
    } else {
        match hosts(arguments)? {
            Some(hosts) => on_hosts(arguments, hosts)?,
            None => {
                let code = on_this_host(arguments)?;
                nothing_recorded();
                code
            }
        }
    };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Prints a note if recording is on and no window was recorded.
fn nothing_recorded() {
    let Some(folder) = std::env::var_os(Config::RECORD_VARIABLE).map(PathBuf::from) else { return };
    let recorded = std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
    if !recorded {
        say!(
            "note: {}={}: no rank recorded a window; only windows of rmalab-windows can record",
            Config::RECORD_VARIABLE,
            folder.display()
        );
    }
}

fn hosts(arguments: &LaunchArgs) -> Result<Option<Vec<Host>>> {
    let read =
        |list: rmalab_atomics::Result<Vec<Host>>| list.map(Some).map_err(|error| Error::usage(error.to_string()));
    match (&arguments.hosts, &arguments.hostfile) {
        (Some(list), _) => read(Host::list(list)),
        (None, Some(path)) => {
            let text =
                file::read_text(path, LONGEST).map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
            read(Host::file(&text))
        }
        (None, None) => Ok(None),
    }
}

fn on_this_host(arguments: &LaunchArgs) -> Result<i32> {
    let (program, rest) = arguments.program.split_first().expect("clap requires a program");
    let size = arguments.n.expect("clap requires a number of ranks where no hosts are named");
    let mut launcher = Launcher::new(size).hub(true).grace(arguments.grace).command(program, rest);
    for (name, value) in &arguments.env {
        launcher = launcher.env(name, value);
    }
    if let Some(bytes) = arguments.segment {
        launcher = launcher.segment_bytes(bytes);
    }
    if let Some(ranks_per_node) = arguments.ranks_per_node {
        launcher = launcher.topology(Topology::blocks(size, ranks_per_node, arguments.nodes_per_rack)?);
    }
    Ok(launcher.spawn()?.wait()?.exit_code())
}

fn on_hosts(arguments: &LaunchArgs, hosts: Vec<Host>) -> Result<i32> {
    let (program, rest) = arguments.program.split_first().expect("clap requires a program");
    let job = Hosts::new(hosts, arguments.n).map_err(|error| Error::usage(error.to_string()))?;
    let remote_shell = arguments.rsh.split_whitespace().map(Into::into).collect();
    let mut job = job.command(program, rest).remote_shell(remote_shell).grace(arguments.grace);
    for (name, value) in &arguments.env {
        job = job.env(name, value);
    }
    if let Some(path) = &arguments.remote {
        job = job.remote_program(path);
    }
    if let Some(interface) = &arguments.interface {
        job = job.interface(interface);
    }
    if let Some(bytes) = arguments.segment {
        job = job.segment_bytes(bytes);
    }
    Ok(job.run()?)
}
