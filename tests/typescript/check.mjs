// Reads {"name": "TypeScript source", …} from each line of stdin and writes {"name": ["what is wrong", …], …} as a line
// to stdout, with an entry for every source that the real compiler does not accept. One process answers any number of
// lines with any number of sources: all share the standard library, which takes most of the time.

import { createInterface } from "node:readline";
import ts from "typescript";

const options = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2022.d.ts"], // the language alone: the declarations of browsers are most of the standard library
  module: ts.ModuleKind.ESNext,
  moduleDetection: ts.ModuleDetectionKind.Force, // so that two sources may use one name
};

const libraries = new Map();

function check(sources) {
  const host = ts.createCompilerHost(options);
  const readLibrary = host.getSourceFile.bind(host);
  host.getSourceFile = (file, ...rest) => {
    if (sources.has(file)) {
      return ts.createSourceFile(file, sources.get(file), ...rest);
    }
    if (!libraries.has(file)) {
      libraries.set(file, readLibrary(file, ...rest));
    }
    return libraries.get(file);
  };
  host.fileExists = (file) => sources.has(file);
  host.writeFile = () => {};

  const program = ts.createProgram([...sources.keys()], options, host);
  const problems = {};
  for (const file of sources.keys()) {
    const source = program.getSourceFile(file);
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    if (found.length > 0) {
      problems[file.slice(1, -3)] = found.map((one) => `TS${one.code} ${ts.flattenDiagnosticMessageText(one.messageText, " ")}`);
    }
  }
  return problems;
}

for await (const line of createInterface({ input: process.stdin })) {
  const sources = new Map(Object.entries(JSON.parse(line)).map(([name, text]) => [`/${name}.ts`, text]));
  process.stdout.write(`${JSON.stringify(check(sources))}\n`);
}
