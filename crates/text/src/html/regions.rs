//! Where elements with a role begin and end: the main content, and what belongs to the site.
//!
//! A role may stand on any element, and most stand on a `div`. Its end tag is the one at which as
//! many elements of that name have ended as have begun since; an element that never ends by this
//! count was never closed. Each tag costs a comparison with at most [`NAMES_MAX`] + 1 names.

use std::ops::Range;

use crate::html::elements::{ElementRole, is_void};

/// Elements of the site that are open at a time have at most this many different names; a role on
/// an element of yet another name is ignored.
const NAMES_MAX: usize = 16;

/// Finds regions in the text of a page from its tags in order.
#[derive(Debug, Default)]
pub(super) struct Regions {
    /// The names that have an open element of the site.
    site: Vec<OpenName>,
    main: Option<OpenMain>,
    /// The main content that has ended, in order.
    mains: Vec<Range<usize>>,
}

/// The open elements of one name, from the first one with a role on.
#[derive(Debug)]
struct OpenName {
    name: Box<str>,
    depth: usize,
    /// Those with a role: their depth, and where they begin.
    roles: Vec<(usize, usize)>,
}

/// A main element that is open, and how many elements of its name are.
#[derive(Debug)]
struct OpenMain {
    name: Box<str>,
    depth: usize,
    start: usize,
}

/// What ends with an end tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Nothing,
    /// The outermost main element.
    Main,
    /// An element of the site, which begins here.
    Site(usize),
}

impl Regions {
    /// Whether no element with a role is open, so that tags without one change nothing.
    pub(super) const fn is_idle(&self) -> bool {
        self.site.is_empty() && self.main.is_none()
    }

    /// Begins an element at this offset.
    pub(super) fn start(&mut self, name: &str, role: Option<ElementRole>, at: usize) {
        if let Some(open) = named(&mut self.site, name) {
            open.depth += 1;
        }
        if let Some(open) = self.main.as_mut().filter(|open| open.name.eq_ignore_ascii_case(name)) {
            open.depth += 1;
        }
        match role.filter(|_| !is_void(name)) {
            None => {}
            Some(ElementRole::Main) => {
                // What belongs to the site does not contain it, and was never closed.
                self.site.clear();
                self.main.get_or_insert_with(|| OpenMain {
                    name: name.into(),
                    depth: 1,
                    start: at,
                });
            }
            Some(ElementRole::Site) => self.start_of_site(name, at),
        }
    }

    fn start_of_site(&mut self, name: &str, at: usize) {
        if let Some(open) = named(&mut self.site, name) {
            open.roles.push((open.depth, at));
        } else if self.site.len() < NAMES_MAX {
            self.site.push(OpenName { name: name.into(), depth: 1, roles: vec![(1, at)] });
        }
    }

    /// Ends an element. The caller passes [`Self::end_main`] the end of a main element.
    pub(super) fn end(&mut self, name: &str) -> Ended {
        if let Some(open) = self.main.as_mut().filter(|open| open.name.eq_ignore_ascii_case(name)) {
            open.depth -= 1;
            if open.depth == 0 {
                // What is still open within it was never closed.
                self.site.clear();
                return Ended::Main;
            }
        }
        let Some(open) = named(&mut self.site, name) else { return Ended::Nothing };
        let ended = open.roles.pop_if(|(depth, _)| *depth == open.depth);
        open.depth -= 1;
        if open.depth == 0 {
            self.site.retain(|open| open.depth > 0);
        }
        ended.map_or(Ended::Nothing, |(_, start)| Ended::Site(start))
    }

    /// Ends the main element at this offset.
    pub(super) fn end_main(&mut self, at: usize) {
        self.mains.extend(self.main.take().map(|main| main.start..at));
    }

    /// The main content of a page whose text ends here; a main element never closed extends to it.
    pub(super) fn mains(&self, end: usize) -> Vec<Range<usize>> {
        let open = self.main.iter().map(|main| main.start..end);
        self.mains.iter().cloned().chain(open).collect()
    }
}

/// Finds the outermost elements of one name. Those that never end are none.
#[derive(Debug, Default)]
pub(super) struct Outermost {
    ended: Vec<Range<usize>>,
    /// Where the one that is open begins, and how many of its name are open.
    start: usize,
    depth: usize,
}

impl Outermost {
    pub(super) fn start(&mut self, at: usize) {
        if self.depth == 0 {
            self.start = at;
        }
        self.depth += 1;
    }

    /// An end tag without a start tag changes nothing.
    pub(super) fn end(&mut self, at: usize) {
        if self.depth == 1 {
            self.ended.push(self.start..at);
        }
        self.depth = self.depth.saturating_sub(1);
    }

    /// Those that have ended, in order.
    pub(super) fn ended(&self) -> &[Range<usize>] {
        &self.ended
    }
}

fn named<'a>(open: &'a mut [OpenName], name: &str) -> Option<&'a mut OpenName> {
    open.iter_mut().find(|open| open.name.eq_ignore_ascii_case(name))
}
