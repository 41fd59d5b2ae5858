//! Pages in a real browser: they load without an error, their controls work, and nothing overlaps at three widths.
//!
//! A script on the page uses it as a reader would, and records the result; headless Chromium prints that.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::document::tests::example;
use crate::html;

/// Catches errors from the first line on.
const WATCH: &str =
    "<script>window.errors = []; window.onerror = (what) => { window.errors.push(String(what)); };</script>";

/// Uses the page, and replaces it with the results.
const USE: &str = include_str!("browser.js");

/// The script's results at one width.
fn seen(width: u32) -> Value {
    let at = tempfile::tempdir().expect("there is a place for temporary files");
    let page = html::document(&example()).replacen("<head>", &format!("<head>{WATCH}"), 1);
    let page = page.replacen("</body>", &format!("<script>{USE}</script></body>"), 1);
    let file = at.path().join("page.html");
    fs::write(&file, page).expect("temporary files can be written");
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"])
        .args(["--virtual-time-budget=10000", &format!("--window-size={width},1000")])
        .arg(format!("--user-data-dir={}", at.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium is installed: apt-get install -y chromium fonts-dejavu-core");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let encoded = text.rsplit("<pre>").next().and_then(|text| text.split("</pre>").next());
    let encoded = encoded.unwrap_or_else(|| panic!("the page has no results: {text}\n{said}"));
    serde_json::from_str(&decoded(encoded)).expect("the page writes JSON")
}

/// The opposite of `encodeURIComponent`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        match (first, more) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).expect("it is encoded") as u8;
                bytes.push(16 * digit(high) + digit(low));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).expect("it is text")
}

#[test]
#[ignore = "needs chromium: apt-get install -y chromium fonts-dejavu-core"]
fn pages_work_at_three_widths() {
    for width in [400, 800, 1400] {
        let seen = seen(width);
        let list = |name: &str| seen[name].as_array().unwrap_or_else(|| panic!("{name}: {seen}")).clone();
        assert!(list("errors").is_empty(), "{width}: {seen}");
        assert!(seen["page"].as_u64() <= seen["width"].as_u64(), "{width}: the page is wider than the window: {seen}");
        assert!(list("overlaps").is_empty(), "{width}: {:?}", seen["overlaps"]);
        assert!(seen["letter"].as_f64() >= Some(9.0), "{width}: letters are too small: {}", seen["letter"]);
        assert_eq!(
            (list("logarithmic"), list("linear")),
            (vec![true.into(), false.into()], vec![false.into(), true.into()])
        );
        let lines: Vec<u64> = list("lines").iter().filter_map(Value::as_u64).collect();
        assert_eq!(lines, [9, 8, 9], "{width}");
        assert_eq!((list("up"), list("down").into_iter().rev().collect()), (list("up"), list("up")), "{width}");
        assert_eq!(list("up")[0], "333 k/s");
        assert_eq!(list("filtered"), [serde_json::json!(["ticket"]), 0.into()], "{width}");
        assert_eq!(list("unfiltered"), [3.into(), Value::from(9)], "{width}");
        assert!(seen["tip"].as_str().is_some_and(|tip| tip.contains("lock-0: ")), "{width}: {}", seen["tip"]);
        assert!(seen["file"].as_str().is_some_and(|file| file.starts_with("\"series\",\"ranks\"")), "{width}: {seen}");
    }
}
