//! In place of reading pages, in a library without the feature `scrape`.

use std::time::Duration;

use crate::transport::page::{FetchedPage, PageUrl};
use gtop_local::fault::ScrapeFault;

impl PageUrl {
    /// Returns that pages are not read.
    pub async fn fetch(&self, _limit: Option<Duration>) -> Result<FetchedPage, ScrapeFault> {
        let why = "built without the feature scrape, which reads pages".to_owned();
        std::future::ready(Err(ScrapeFault::Lost { why })).await
    }
}
