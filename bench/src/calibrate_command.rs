//! `rmalab calibrate`: progress and output.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressStyle};
use rmalab_job::say;

use crate::calibrate::{self, Calibration, Options, Program};
use crate::cli::CalibrateArgs;
use crate::document::numbers::counted;
use crate::finding::{Table, Value};
use crate::output::{ResultFile, print};
use crate::{Result, interrupt};

/// Runs the sub-command.
pub(crate) fn run(arguments: &CalibrateArgs) -> Result<ExitCode> {
    let out = &arguments.output;
    // Checks the file before the measurement.
    let file = if out == Path::new("-") { None } else { Some(ResultFile::open(out)?) };
    let to_stdout = file.is_none();
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let bar = if !arguments.quiet && io::stderr().is_terminal() {
        let style = "{bar:30} {percent:>3}%  {elapsed} elapsed, {eta} left";
        let style = ProgressStyle::with_template(style).expect("the template is a constant");
        ProgressBar::new(1000).with_style(style)
    } else {
        ProgressBar::hidden()
    };
    if !arguments.quiet {
        say!("calibrate: two ranks on two cores, {} programs: about {:.1?}", Program::ALL.len(), arguments.duration);
    }
    let options = Options { name: arguments.name.clone(), duration: arguments.duration };
    let calibration = calibrate::calibrate(&options, &stop, |share| bar.set_position((share * 1000.0) as u64))?;
    bar.finish_and_clear();
    let text = calibration.to_toml();
    match file {
        None => print(&text)?,
        Some(mut file) => file.write(|to| to.write_all(text.as_bytes()))?,
    }
    if !arguments.quiet {
        say!("{}", table(&calibration).trim_end());
        if !to_stdout {
            say!("profile: {}", out.display());
        }
        if !calibration.complete {
            say!("interrupted after {}", counted(calibration.rounds as u64, "round"));
        }
    }
    Ok(if calibration.complete { ExitCode::SUCCESS } else { ExitCode::from(interrupt::exit_code()) })
}

/// The measured times, and the times that the simulator computes with the profile.
fn table(calibration: &Calibration) -> String {
    let mut table = Table::new(
        "Measured times, and times that the simulator computes with the profile",
        ["", "measured", "simulated"],
    );
    for (index, program) in Program::ALL.into_iter().enumerate() {
        let times = [&calibration.measured, &calibration.simulated].map(|times| Value::Time(times[index]));
        table.row(std::iter::once(Value::from(program.name())).chain(times));
    }
    format!("{table}\n")
}
