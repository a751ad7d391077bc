//! `health`: exit code 0 when a service answers, 1 when it does not.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::cli::collection::{ClientArgs, RemoteService, URL_VARIABLE};
use crate::cli::configuration;
use crate::cli::error_report::ErrorReport;
use crate::config::Sources;
use crate::server::Settings;

/// How long the reply may take.
const TIMEOUT: Duration = Duration::from_secs(3);

const EXAMPLES: &str = "\
Examples:
  nearprint health
  nearprint health --server http://127.0.0.1:7878 --ready";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HealthArgs {
    /// Where the service listens; without it, where the configuration and the environment say
    #[arg(
        long,
        visible_alias = "url",
        value_name = "URL",
        env = URL_VARIABLE,
        hide_env_values = true,
    )]
    server: Option<String>,
    /// The configuration file of the service
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
    /// Ask whether it accepts writes, not only whether it is alive
    #[arg(long)]
    ready: bool,
}

pub(crate) fn run(args: &HealthArgs, out: &mut dyn Write) -> Result<()> {
    let timeout = args.client.timeout().unwrap_or(TIMEOUT);
    let service = match args.server.as_ref().filter(|_| args.config.is_none()) {
        Some(url) => RemoteService::with_timeout(url, &args.client, timeout)?,
        None => RemoteService::for_probe(&configured(args.config.clone())?, timeout)?,
    };
    let path = if args.ready { "/readyz" } else { "/healthz" };
    match service.probe(path)? {
        200 => Ok(writeln!(out, "ok")?),
        status => {
            let what = format!("{}{path} answers with status {status}", service.address());
            Err(ErrorReport::new(what, "look at the log of the service").into())
        }
    }
}

/// Where a service of this configuration can be reached from this machine.
fn configured(file: Option<PathBuf>) -> Result<String> {
    let (_, settings) = configuration::load(&Sources::of_process(file))?;
    Ok(url(&settings))
}

fn url(settings: &Settings) -> String {
    let scheme = if settings.server.tls.is_some() { "https" } else { "http" };
    let ip = match settings.listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(ip, settings.listen.port()))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn the_address_is_that_of_the_configuration() {
        let url = |listen: &str, tls: &str| {
            let mut config = Config::default();
            listen.clone_into(&mut config.server.listen);
            "x".clone_into(&mut config.access.tokens);
            config.server.tls_certificate_file = tls.into();
            config.server.tls_key_file = tls.into();
            super::url(&config.validated().unwrap())
        };
        assert_eq!(url("127.0.0.1:7878", ""), "http://127.0.0.1:7878");
        assert_eq!(url("0.0.0.0:1", "x"), "https://127.0.0.1:1");
        assert_eq!(url("[::]:2", ""), "http://[::1]:2");
        assert_eq!(url("10.0.0.1:3", ""), "http://10.0.0.1:3");
    }
}
