//! Promise: a text of the worst characters, by any recipe, takes a bounded multiple of its own size
//! in memory. Method: a table of hostile texts and pages; the peak of the resident memory of this
//! process, which runs one test (nextest).
//!
//! The CPU is to be at most five times that of as many bytes of English; the table of 16 MiB, which
//! is run by hand, reports it. What exceeds this has more to do: U+FDFA becomes 18 letters or 33
//! bytes, so that each three bytes are six to eleven times the work; rows of words of which none
//! occurs twice fill the table of distinct features several times, because it is bounded; and what
//! is random in all of Unicode has no stretches that the tables of Unicode take at once. By np2, of
//! 4 MiB, random letters take 4 to 5 times English without any mark among them, because each window
//! is new to the table; random Arabic with marks that compose takes 5.4.
//!
//! ```text
//! cargo nextest run --release -p nearprint-text --test hostile --run-ignored only --no-capture
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_precision_loss, reason = "sizes of a test are small")]

use std::fmt::Write as _;
use std::time::Duration;

use nearprint_text::{
    Explained, Extract, Method, Recipe, Source, Wanted, analyse, memory_of_analysis,
};

const MIB: usize = 1 << 20;

const RECIPES: [&str; 8] = [
    "np2",
    "np2-5",
    "words-1",
    "words-3",
    "words-8-stop",
    "keywords-22",
    "textrank-22",
    "keywords-99-w5",
];

/// Numbers that look random, the same each time.
struct Mixed(u64);

impl Mixed {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn of(&mut self, range: std::ops::RangeInclusive<u32>) -> char {
        let (first, last) = (*range.start(), *range.end());
        let number = first + (self.next() % u64::from(last - first + 1)) as u32;
        char::from_u32(number).unwrap_or('x')
    }
}

fn repeated(piece: &str, bytes: usize) -> String {
    piece.repeat(bytes / piece.len())
}

/// Pieces that are made one after the other.
fn made(bytes: usize, mut piece: impl FnMut(&mut Mixed, &mut String)) -> String {
    let (mut text, mut mixed) = (String::with_capacity(bytes), Mixed(1));
    while text.len() + 100 < bytes {
        piece(&mut mixed, &mut text);
    }
    text
}

/// Words of this many letters.
fn words(bytes: usize, letters: usize) -> String {
    made(bytes, |mixed, text| {
        (0..letters).for_each(|_| text.push(mixed.of(0x61..=0x7a)));
        text.push(' ');
    })
}

/// Prose: 20,000 words, the first of which are the most frequent.
fn english(bytes: usize) -> String {
    let mut spelling = Mixed(7);
    let mut word = |_| {
        let letters = 2 + spelling.next() % 3 + spelling.next() % 6;
        (0..letters).map(|_| spelling.of(0x61..=0x7a)).collect::<String>()
    };
    let dictionary: Vec<String> = (0..20_000).map(&mut word).collect();
    made(bytes, |mixed, text| {
        let most = mixed.next() % 20_000;
        text.push_str(&dictionary[(mixed.next() % (1 + most)) as usize]);
        text.push_str(if mixed.next() % 12 == 0 { ". " } else { " " });
    })
}

fn texts(bytes: usize) -> Vec<(&'static str, String)> {
    let mut texts = texts_of_one_piece(bytes);
    texts.extend(mixed_texts(bytes));
    texts
}

fn texts_of_one_piece(bytes: usize) -> Vec<(&'static str, String)> {
    [
        ("a phrase in a character", "\u{fdfa}"),
        ("squared words", "\u{3316}"),
        ("letters that fold to three", "\u{390}"),
        ("sharp s", "\u{1e9e}"),
        ("ligatures", "\u{fb03}"),
        ("numbers in parentheses", "\u{2487}"),
        ("one-letter words", "a "),
        ("one-letter words with hyphens", "a-"),
        ("two-letter words", "ab-"),
        ("one long word", "a"),
        ("one long number", "7"),
        ("digits", "7 "),
        ("long numbers", "1234567890 "),
        ("digits of another script", "\u{967} "),
        ("one long word of e acute", "\u{e9}"),
        ("white space", " "),
        ("ends of lines", "\r\n"),
        ("punctuation", "."),
        ("scripts in turn", "a\u{8336}\u{430}\u{d55c}\u{5d0}"),
        ("marks", "\u{301}"),
        ("marks of several classes", "\u{301}\u{323}\u{327}\u{345}"),
        ("marks that become two", "\u{344}"),
        (
            "letters with ten marks",
            "a\u{301}\u{323}\u{301}\u{323}\u{301}\u{323}\u{301}\u{323}\u{301}\u{323}",
        ),
        ("Hangul", "\u{d55c}"),
        ("Hangul letters", "\u{1112}\u{1161}\u{11ab}"),
        ("vowels of Hangul", "\u{1161}"),
        ("half-width kana", "\u{ff76}\u{ff9e}"),
        ("kana", "\u{3042}"),
        ("one Han", "\u{8336}"),
        ("words that overlap", "\u{4e2d}\u{56fd}"),
        ("families of emoji", "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} "),
        ("emoji", "\u{2764}\u{fe0f}"),
        ("soft hyphens", "\u{ad}"),
        ("soft hyphens in a word", "a\u{ad}"),
        ("joiners", "\u{200d}"),
        ("vowel signs", "\u{916}\u{94d}\u{92f}\u{93e} "),
        ("vowel signs of two parts", "\u{cc6}\u{cc2}\u{cd5}"),
        ("mathematical letters", "\u{1d400}"),
        ("characters of no script", "\u{fffd}"),
        ("NUL", "\0"),
    ]
    .into_iter()
    .map(|(name, piece)| (name, repeated(piece, bytes)))
    .collect()
}

fn mixed_texts(bytes: usize) -> Vec<(&'static str, String)> {
    let each = |range: std::ops::RangeInclusive<u32>| {
        made(bytes, move |mixed, text| text.push(mixed.of(range.clone())))
    };
    vec![
        ("all two-letter words", words(bytes, 2)),
        ("all three-letter words", words(bytes, 3)),
        ("all four-letter words", words(bytes, 4)),
        ("distinct words", words(bytes, 6)),
        ("distinct long words", words(bytes, 12)),
        (
            "words of numbers",
            made(bytes, |mixed, text| write!(text, "{:x} ", mixed.next() >> 40).unwrap()),
        ),
        ("base64", made(bytes, |mixed, text| text.push(mixed.of(0x30..=0x7a)))),
        ("all ASCII", each(0x20..=0x7e)),
        ("all Han", each(0x4e00..=0x9fff)),
        (
            "all Han with spaces",
            made(bytes, |mixed, text| text.extend([mixed.of(0x4e00..=0x9fff), ' '])),
        ),
        ("common Han", each(0x4e00..=0x5100)),
        ("all Hangul", each(0xac00..=0xd7a3)),
        ("all Cyrillic", each(0x430..=0x44f)),
        ("all Arabic with marks", each(0x620..=0x655)),
        ("all marks", each(0x300..=0x345)),
        ("all compatibility characters", each(0x3300..=0x33ff)),
        ("all presentation forms", each(0xfb50..=0xfdff)),
        ("all Devanagari", each(0x900..=0x97f)),
        ("all Thai", each(0xe01..=0xe4e)),
        ("all of Unicode", each(0x80..=0x2ffff)),
        ("Latin with accents", each(0xc0..=0x24f)),
        ("Greek with accents", each(0x1f00..=0x1fff)),
    ]
}

fn pages(bytes: usize) -> Vec<(&'static str, String)> {
    let mut pages: Vec<(&str, String)> = [
        ("tags that do not end", "<a"),
        ("tags", "<a>"),
        ("paragraphs in paragraphs", "<p>"),
        ("divisions", "<div>"),
        ("ends of tags", "</p>"),
        ("ampersands", "&amp;"),
        ("bare ampersands", "&"),
        ("unknown references", "&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("long references", "&CounterClockwiseContourIntegral;"),
        ("references of two", "&nvlt;"),
        ("references of phrases", "&#65018;"),
        ("comments that do not end", "<!--"),
        ("comments", "<!---->"),
        ("scripts that do not end", "<script>"),
        ("scripts", "<script></script>a"),
        ("dropped elements", "<rt>x</rt>y"),
        ("dropped elements that do not end", "<rt>"),
        ("links", "<a>x</a>y"),
        ("roles", "<p role=search>x</p>"),
        ("roles that do not end", "<p role=search>x"),
        ("main content", "<main>x</main>y"),
        ("articles", "<article>x</article>y"),
        ("images", "<img alt=x>"),
        ("navigation", "<nav>x</nav>y"),
        ("tables", "<table><tr><td>x"),
        ("textareas", "<textarea>"),
        ("templates", "<template shadowrootmode=open>x"),
        ("CDATA", "<![CDATA[x]]>"),
        ("NUL", "\0"),
        ("ends of lines", "\r"),
        ("less than", "<"),
        ("processing instructions", "<?x>"),
        ("soft hyphens", "a&shy;"),
        ("a phrase in a character", "\u{fdfa}"),
        ("marks", "\u{301}"),
        ("one-letter words", "a <b>"),
    ]
    .into_iter()
    .map(|(name, piece)| (name, repeated(piece, bytes)))
    .collect();
    pages.extend([
        ("a million attributes", format!("<p {}>x", repeated("a=b ", bytes))),
        ("articles beside main content", {
            let main = repeated(".", bytes / 2) + &repeated("x", bytes / 8);
            let articles = repeated("<article>x</article>", bytes * 3 / 8);
            format!("<main>{main}</main>{articles}")
        }),
        ("a long attribute", format!("<p a='{}'>x", repeated("b", bytes))),
        ("tables in XHTML", format!("<?xml version='1.0'?>{}", repeated("<![CDATA[x", bytes))),
    ]);
    pages
}

/// Forgets the peak of the resident memory, and returns what is resident now.
#[expect(clippy::disallowed_methods, reason = "the system counts memory in a file of its own")]
fn begin_peak() -> usize {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    status("VmRSS:")
}

fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    1_024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
}

/// The CPU time of this thread.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

/// The peak of the memory and the CPU time of some work.
fn cost(work: impl FnOnce()) -> (usize, Duration) {
    let (begin, cpu_before) = (begin_peak(), cpu());
    work();
    (status("VmHWM:").saturating_sub(begin), cpu().saturating_sub(cpu_before))
}

fn method(recipe: &str, extract: Extract) -> Method {
    Method { recipe: recipe.parse::<Recipe>().unwrap(), extract, ..Method::default() }
}

type Work = Box<dyn Fn(&Source<'_>)>;

/// Each kind of work on a source, with its name.
fn works() -> Vec<(String, Work)> {
    let mut works: Vec<(String, Work)> = Vec::new();
    for recipe in RECIPES {
        let method = method(recipe, Extract::Content);
        works.push((
            recipe.to_owned(),
            Box::new(move |source| drop(analyse(source, method, Wanted::ALL))),
        ));
    }
    for recipe in ["np2", "words-3", "textrank-22"] {
        let method = method(recipe, Extract::Content);
        let explain = move |source: &Source<'_>| {
            if let Ok(explained) = Explained::of(source, method) {
                drop((explained.explanation(), explained.differing_bits(&explained)));
            }
        };
        works.push((format!("explain {recipe}"), Box::new(explain)));
    }
    works
}

/// The table, with the memory in multiples of the text and the time in multiples of English.
#[test]
#[ignore = "a table to read: minutes"]
#[expect(clippy::disallowed_methods, reason = "who runs it names the work")]
fn table() {
    let bytes = std::env::var("HOSTILE_MIB").map_or(16, |mib| mib.parse().unwrap()) * MIB;
    let only = std::env::var("HOSTILE_WORK").unwrap_or_default();
    let works: Vec<_> = works().into_iter().filter(|(name, _)| name.contains(&only)).collect();
    let english = english(bytes);
    for (kind, sources) in [("text", texts(bytes)), ("page", pages(bytes))] {
        for (name, work) in &works {
            let source = |text: &str| match kind {
                "text" => Source::Text(text.to_owned().into()),
                _ => Source::Html(text.to_owned().into()),
            };
            let plain = source(&english);
            work(&plain);
            let (memory, time) = cost(|| work(&plain));
            println!("{kind} {name}: English {:.1} x, {time:.1?}", memory as f64 / bytes as f64);
            for (hostile, text) in &sources {
                let source = source(text);
                let (memory, took) = cost(|| work(&source));
                let (memory, times) =
                    (memory as f64 / bytes as f64, took.as_secs_f64() / time.as_secs_f64());
                if memory > 3.0 || times > 2.0 {
                    println!("{kind} {name}: {hostile}: {memory:.1} x memory, {times:.1} x time");
                }
            }
        }
    }
}

/// Texts of 4 MiB, so long that the tables are a small part of the memory.
#[test]
fn the_worst_texts_and_pages_take_no_more_memory_than_is_reserved_for_them() {
    let bytes = 4 * MIB;
    for (recipe, worst) in [
        (
            "np2",
            &["a phrase in a character", "marks", "one long word of e acute", "dropped elements"][..],
        ),
        (
            "words-3",
            &["letters that fold to three", "one-letter words", "comments that do not end"],
        ),
        ("keywords-22", &["one-letter words with hyphens", "one long word", "distinct words"]),
        (
            "textrank-22",
            &["one-letter words with hyphens", "two-letter words", "all three-letter words"],
        ),
    ] {
        let method = method(recipe, Extract::Content);
        // The dictionaries and the tables of characters are read.
        analyse(&Source::Text("tea \u{8336}".into()), method, Wanted::STORED).unwrap();
        let texts = texts(bytes).into_iter().map(|(name, text)| (name, Source::Text(text.into())));
        let pages = pages(bytes).into_iter().map(|(name, page)| (name, Source::Html(page.into())));
        for (name, source) in texts.chain(pages).filter(|(name, _)| worst.contains(name)) {
            let (peak, _) = cost(|| drop(analyse(&source, method, Wanted::STORED)));
            // The tables of this little text are smaller than those of 64 MiB.
            let reserved = memory_of_analysis(method.recipe, bytes) - (44 << 20);
            assert!(peak < reserved, "{recipe}: {name}: {peak} bytes, and {reserved} are reserved");
        }
    }
}
