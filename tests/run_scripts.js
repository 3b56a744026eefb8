// Run the scripts of the page in Node: `node run_scripts.js FOLDER SCRIPT ... < INPUT > OUTPUT`.
// The last script is a test's: a function of its input, whose result is the output.
"use strict";
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const vm = require("node:vm");

const [folder, ...scripts] = process.argv.slice(2);
const test = scripts.pop();
for (const script of scripts) {
  vm.runInThisContext(readFileSync(join(folder, script), "utf8"), { filename: script });
}
const input = JSON.parse(readFileSync(0, "utf8"));
Promise.resolve(vm.runInThisContext(`(${test})`)(input)).then((output) => {
  process.stdout.write(JSON.stringify(output));
});
