//! Pages made from one template, as generators of documentation make them: different ones are no
//! near-duplicates, and edited ones are. `make figures WHAT=quality-pages` measures it on the
//! pages of real generators.

use nearprint_fingerprint::Sketch;

use crate::{analyse_text, content_of_html, text_of_html};

/// Words of a page that no other page has.
fn own(page: usize, count: usize) -> String {
    let word = |word| format!("w{} ", (page * 1_000 + word) * 7_919);
    (0..count).map(word).collect()
}

/// Pages made from one template with little text of their own, in the manner of four generators.
fn of_template(template: usize, page: usize) -> String {
    let words = own(page, 40);
    let site = own(999, 60);
    let menu: String = (0..60)
        .map(|item| own(998, 1 + item % 3))
        .map(|of| "<li><a href=x>".to_owned() + &of + "</a>")
        .collect();
    match template {
        0 => format!("<nav>{menu}</nav><main><h1>{words}</h1></main><footer>{site}</footer>"),
        1 => format!("<div class=menu>{menu}{site}</div><div role=main><div>{words}</div></div>"),
        2 => format!(
            "<div role=navigation>{menu}</div><div>{words}</div><div role=contentinfo>{site}</div>"
        ),
        _ => format!("<nav>{menu}</nav><div>{words}</div><aside><a>{site}</a></aside>"),
    }
}

/// The templates whose visible text is mostly that of the site.
const MARKED_BY_ROLE: [usize; 2] = [1, 2];

fn sketch(text: &str) -> Sketch {
    *analyse_text(text).unwrap().sketch.unwrap()
}

fn similarity(one: &Sketch, other: &Sketch) -> f64 {
    one.resemblance(other).similarity()
}

#[test]
fn pages_of_one_template_are_no_near_duplicates_and_their_edited_copies_are() {
    for template in 0..4 {
        let [one, other] = [1, 2].map(|page| of_template(template, page));
        let content = |page: &str| sketch(&content_of_html(page));
        assert!(similarity(&content(&one), &content(&other)) < 0.1, "{template}");
        let edited = one.replacen(&own(1, 1), "another ", 1);
        assert!(similarity(&content(&one), &content(&edited)) > 0.83, "{template}");
        if MARKED_BY_ROLE.contains(&template) {
            let visible = |page: &str| sketch(&text_of_html(page));
            assert!(similarity(&visible(&one), &visible(&other)) > 0.5, "{template}");
        }
    }
}

/// Pages of one site whose main content is not all that tells them apart, with words of their own.
fn of_site(shape: usize, page: usize) -> String {
    let words = |count| own(page, count);
    let site = |count| own(999, count);
    match shape {
        0 => format!("<nav>{}</nav><main>Loading...</main><div>{}</div>", site(9), words(150)),
        1 => format!("<main><h1>Our daily news page</h1></main><p>{}", words(40)),
        2 => format!("<main>{}</main><article>{}</article>", site(90), words(300)),
        3 => format!("<div role=dialog>{}</div><p>{}", site(40), words(40)),
        4 => format!("<main><div role=alertdialog>{}</div></main>{}", site(90), words(150)),
        5 => format!("<ul role=menubar><li><a>{}</a></ul><p>{}", site(120), words(15)),
        6 => format!("<main><h1>{}</h1><img alt='{}'></main>", site(4), words(20)),
        _ => format!("<h1>{}</h1><img alt='{}'/><img alt='.'>", site(4), words(20)),
    }
}

#[test]
fn pages_of_one_site_differ_by_what_stands_beside_thin_main_content_and_for_images() {
    for shape in 0..8 {
        let [one, other] = [1, 2].map(|page| sketch(&content_of_html(&of_site(shape, page))));
        assert!(similarity(&one, &other) < 0.3, "{shape}");
        let edited = of_site(shape, 1).replacen(&own(1, 1), "another ", 1);
        assert!(similarity(&one, &sketch(&content_of_html(&edited))) > 0.83, "{shape}");
    }
}
