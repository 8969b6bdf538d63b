// Reads {"name": "TypeScript source", …} from stdin and writes {"name": ["what is wrong", …], …} to stdout, with an
// entry for every source that the real compiler does not accept. One run checks any number of sources: they share
// the standard library, which takes most of the time.

import { readFileSync } from "node:fs";
import ts from "typescript";

const sources = new Map(
  Object.entries(JSON.parse(readFileSync(0, "utf8"))).map(([name, text]) => [`/${name}.ts`, text]),
);
const options = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleDetection: ts.ModuleDetectionKind.Force, // so that two sources may use one name
};

const host = ts.createCompilerHost(options);
const readLibrary = host.getSourceFile.bind(host);
host.getSourceFile = (file, ...rest) =>
  sources.has(file) ? ts.createSourceFile(file, sources.get(file), ...rest) : readLibrary(file, ...rest);
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
process.stdout.write(JSON.stringify(problems));
