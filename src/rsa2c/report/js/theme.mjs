// Light or dark theme: the system's setting until the button is pressed.

import { redrawAll } from "./dom.mjs";

export function themeButton() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const button = document.getElementById("theme");
  const label = () => (button.title = dark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    label();
    redrawAll();
  });
  system.addEventListener("change", () => {
    label();
    redrawAll();
  });
  label();
}
