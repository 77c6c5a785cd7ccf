//! Runs and schemas as users write them. The examples are the seeds:
//!
//!     cargo +nightly fuzz run config fuzz/corpus/config examples
#![no_main]

use libfuzzer_sys::fuzz_target;
use spec::run::Config;
use spec::schema::Schema;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(config) = toml::from_str::<Config>(text)
        && let Ok(run) = planning::check(&config)
    {
        let explicit = config.explicit(&run);
        let again = planning::check(&explicit).expect("what was checked once is checked again");
        assert_eq!(explicit, explicit.explicit(&again));
    }
    if let Ok(schema) = toml::from_str::<Schema>(text) {
        let _ = schema.check();
    }
});
