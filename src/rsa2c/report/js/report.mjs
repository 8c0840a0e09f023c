// The page of one run.

import { Ask } from "./ask.mjs";
import { importanceOrder, showSwarm, showTraining } from "./attention.mjs";
import { decode } from "./decode.mjs";
import { Player } from "./episode.mjs";
import { Policy } from "./policy.mjs";
import { showResult } from "./result.mjs";
import { makeScene } from "./scenes.mjs";
import { themeButton } from "./theme.mjs";
import { showCheck } from "./trust.mjs";

const page = decode(JSON.parse(document.getElementById("data").textContent));
themeButton();
showResult(page.result);
if (page.attention.training) showTraining(page.attention.training);
if (page.model) {
  const policy = new Policy(page.model);
  const scene = makeScene(page.scene);
  page.order = page.attention.swarm ? importanceOrder(page.attention.swarm) : page.features.map((_, i) => i);
  const ask = new Ask(page, policy, scene);
  if (page.attention.swarm) showSwarm(page, ask);
  if (page.episodes) new Player(page, policy, scene, ask);
  showCheck(policy, page.model.reference);
}
document.documentElement.dataset.ready = "true";
