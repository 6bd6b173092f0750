//! Links against what Node gives an addon at run time.

fn main() {
    napi_build::setup();
}
