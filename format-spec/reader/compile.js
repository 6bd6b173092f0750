// Compiles Kaitai definitions to Python: node compile.js OUT_DIR FILE.ksy…
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const compiler = require("kaitai-struct-compiler");
const yaml = require("yaml");

const noImports = { importYaml: (name) => Promise.reject(new Error(`nothing imports ${name}`)) };

async function main([out, ...definitions]) {
  for (const file of definitions) {
    const definition = yaml.parse(fs.readFileSync(file, "utf8"));
    const files = await compiler.compile("python", definition, noImports, false);
    for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(out, name), text);
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message || String(error));
  process.exitCode = 1;
});
