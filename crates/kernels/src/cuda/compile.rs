//! Kernels from source to machine code: compiled once per architecture by NVRTC, and kept as cubin in the cache folder.

use super::kernels::{HOPPER_SOURCES, SOURCES};
use super::library::Library;
use crate::KernelError;
use cudarc::nvrtc::{result, sys};
use sha2::{Digest, Sha256};
use std::ffi::CString;
use std::path::Path;

/// Source of a module of kernels: a file of CUDA C, and what stands before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Name of the file, for messages of the compiler.
    pub(crate) name: &'static str,
    /// Headers and the file, in this order.
    pub(crate) parts: &'static [&'static str],
}

impl Source {
    fn text(&self) -> String {
        let (last, headers) = self.parts.split_last().expect("a source has a part");
        // Lines of messages are those of the file.
        format!("{}\n#line 1 \"{}\"\n{last}", headers.join("\n"), self.name)
    }

    /// Machine code for `architecture` (`sm_90`), from the cache or from the compiler.
    pub(crate) fn cubin(&self, architecture: &str, cache: Option<&Path>) -> Result<Vec<u8>, KernelError> {
        let text = self.text();
        let digest =
            Sha256::new().chain_update(architecture).chain_update("\0").chain_update(&text).finalize();
        let digest: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        let file = cache.map(|folder| folder.join(format!("{}-{architecture}-{digest}.cubin", self.name)));
        if let Some(cubin) = file.as_ref().and_then(|file| std::fs::read(file).ok())
            && cubin.starts_with(b"\x7fELF")
        {
            return Ok(cubin);
        }
        let (cubin, _) = self.compile(architecture, &text)?;
        if let Some(file) = &file {
            // A cache that cannot be written costs a second of compiling the next time, and nothing else.
            let _ = super::cache::replace(file, &cubin);
        }
        Ok(cubin)
    }

    /// Machine code, and what the compiler says of it: warnings, or nothing.
    fn compile(&self, architecture: &str, text: &str) -> Result<(Vec<u8>, String), KernelError> {
        Library::Nvrtc.find().need()?;
        let failed = |what: &str| KernelError::Device(format!("NVRTC: {}: {what}", self.name));
        let c_string = |text: &str| CString::new(text).map_err(|_| failed("the source has a zero byte"));
        let (source, name) = (c_string(text)?, c_string(self.name)?);
        let program =
            result::create_program(&source, Some(&name)).map_err(|error| failed(&error.to_string()))?;
        let options =
            [format!("--gpu-architecture={architecture}"), "--std=c++17".into(), "-lineinfo".into()];
        // SAFETY: the program was just made and is destroyed once, below; source and name outlive it.
        let compiled = unsafe { result::compile_program(program, &options) };
        // SAFETY: as above.
        let log = unsafe { result::get_program_log(program) }.unwrap_or_default();
        let log: Vec<u8> = log.into_iter().map(|c| c as u8).filter(|&c| c != 0).collect();
        let log = String::from_utf8_lossy(&log).trim().to_owned();
        let outcome = compiled.map_err(|error| failed(&format!("{error}\n{log}")));
        let outcome = outcome.and_then(|()| {
            let mut size = 0;
            // SAFETY: the program is compiled; the second call writes as many bytes as the first said.
            unsafe {
                sys::nvrtcGetCUBINSize(program, &mut size).result().map_err(|e| failed(&e.to_string()))?;
                let mut cubin = vec![0u8; size];
                sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast())
                    .result()
                    .map_err(|e| failed(&e.to_string()))?;
                Ok((cubin, log))
            }
        });
        // SAFETY: the program is not used any more.
        let _ = unsafe { result::destroy_program(program) };
        outcome
    }
}

/// All modules of a card of `architecture` (`sm_90`), each with what it is compiled for.
pub(crate) fn sources(architecture: &str) -> impl Iterator<Item = (&'static Source, String)> {
    let hopper = if architecture == "sm_90" { HOPPER_SOURCES } else { &[] };
    let of_all = SOURCES.iter().map({
        let architecture = architecture.to_owned();
        move |source| (source, architecture.clone())
    });
    of_all.chain(hopper.iter().map(|source| (source, "sm_90a".to_owned())))
}

/// Compiles every kernel for `architecture` (`sm_90`), without a GPU and without the cache, and refuses warnings. Gives the bytes
/// of machine code.
pub fn compile_kernels(architecture: &str) -> Result<usize, KernelError> {
    let sizes = sources(architecture).map(|(source, architecture)| {
        let (cubin, log) = source.compile(&architecture, &source.text())?;
        match log.as_str() {
            "" => Ok(cubin.len()),
            _ => Err(KernelError::Device(format!("NVRTC: {} for {architecture}: {log}", source.name))),
        }
    });
    sizes.sum()
}
