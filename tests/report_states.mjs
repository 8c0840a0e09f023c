// What the report's JavaScript computes at given states, as JSON: run by test_report.py and benchmarks/report.py.
//   node report_states.mjs FOLDER_OF_MODULES INPUT.json
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, input] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${folder}/${name}.mjs`));
const { decode, row } = await load("decode");
const { Policy } = await load("policy");
const { segments } = await load("kinematics");
const { gaussLegendre } = await load("shapley");
const { csv } = await load("table");
const { learningScale } = await load("axes");

const { model, states, scene, rule, table, curves } = decode(JSON.parse(readFileSync(input, "utf8")));
const out = {};
if (rule) out.rule = Object.values(gaussLegendre(rule)).map((part) => Array.from(part));
if (table)
  out.csv = csv(
    table.names.map((name, k) => ({ name, value: (r) => r[k] })),
    table.rows,
  );
if (curves) out.scale = learningScale(curves);
if (scene)
  out.segments = Array.from({ length: states.shape[0] }, (_, t) =>
    segments(scene, row(states, t)).map((s) => [s.from, s.to]),
  );
if (model) {
  const policy = new Policy(model);
  const names = Object.keys(policy.functions);
  for (const name of names) policy.functions[name].game(policy.background);
  const rows = Array.from({ length: states.shape[0] }, (_, t) => row(states, t));
  out.action = rows.map((state) => Array.from(policy.action(state)));
  out.nearest = rows.map((state) => policy.familiarity(state));
  out.similar = rows.map((state) => {
    const shown = policy.similar(state, 3);
    return {
      numbers: shown.map((p) => p.number),
      similarity: shown.map((p) => p.similarity),
      states: shown.map((p) => Array.from(p.state)),
      actions: shown.map((p) => Array.from(p.action)),
    };
  });
  out.functions = {};
  out.milliseconds = {};
  for (const name of names) {
    const began = performance.now();
    out.functions[name] = rows.map((state) => {
      const { values, base, prediction } = policy.explain(name, state);
      return { values: Array.from(values), base: Array.from(base), prediction: Array.from(prediction) };
    });
    out.milliseconds[name] = (performance.now() - began) / rows.length;
    out.shown ??= {};
    out.shown[name] = rows.map((state) => {
      const { values, base, prediction } = policy.explainShown(name, state);
      return { values: Array.from(values), base: Array.from(base), prediction: Array.from(prediction) };
    });
  }
}
process.stdout.write(JSON.stringify(out));
