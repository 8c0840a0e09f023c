// Drawings of a state. A scene has a viewBox and draw(state, {action}) -> SVG children. Some scenes can be dragged, or
// have sliders of their own (`handles`) for features that depend on each other.

import { svg } from "./dom.mjs";
import { segments } from "./kinematics.mjs";

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

/** An arc about a point from angle a to b (radians, counter-clockwise from upright) with an arrow head. */
function arcArrow(cx, cy, r, a, b, name) {
  if (Math.abs(b - a) < 0.06) return [];
  const at = (angle, radius = r) => [cx - radius * Math.sin(angle), cy - radius * Math.cos(angle)];
  const [x0, y0] = at(a);
  const [x1, y1] = at(b);
  const [sweep, large] = [b > a ? 0 : 1, Math.abs(b - a) > Math.PI ? 1 : 0];
  const long = Math.min(0.1, 0.6 * r * Math.abs(b - a));
  const back = b - (Math.sign(b - a) * long) / r;
  const [p, q] = [at(back, r + 0.6 * long), at(back, r - 0.6 * long)];
  return [
    svg("path", { class: name, fill: "none", d: `M${x0} ${y0}A${r} ${r} 0 ${large} ${sweep} ${x1} ${y1}` }),
    svg("polygon", { class: `${name} head`, points: `${x1},${y1} ${p} ${q}` }),
  ];
}

const pendulum = {
  viewBox: "-1.35 -1.35 2.7 2.7",
  hint: "Drag it. Orange: torque; grey: speed.",
  draw(state, { action, low = -2, high = 2 } = {}) {
    const angle = Math.atan2(state[1], state[0]);
    const [x, y] = [-Math.sin(angle), -Math.cos(angle)];
    const torque = action ? (1.9 * action[0]) / Math.max(Math.abs(low), Math.abs(high)) : 0;
    return [
      svg("circle", { class: "ring", cx: 0, cy: 0, r: 1 }),
      svg("line", { class: "goal", x1: 0, y1: 0, x2: 0, y2: -1.2 }),
      ...arcArrow(0, 0, 1.2, angle, angle + clamp(state[2] / 8, -1.2, 1.2), "speed"),
      svg("line", { class: "rod", x1: 0, y1: 0, x2: x, y2: y }),
      svg("circle", { class: "bob", cx: x, cy: y, r: 0.13 }),
      ...arcArrow(0, 0, 0.42, -torque / 2, torque / 2, "force"),
      svg("circle", { class: "pivot", cx: 0, cy: 0, r: 0.05 }),
    ];
  },
  drag(state, x, y) {
    const length = Math.hypot(x, y) || 1;
    const next = Float64Array.from(state);
    [next[0], next[1]] = [-y / length, -x / length];
    return next;
  },
  handles: [
    {
      name: "angle θ from upright",
      unit: "°",
      low: -180,
      high: 180,
      get: (state) => (Math.atan2(state[1], state[0]) * 180) / Math.PI,
      set(state, degrees) {
        const next = Float64Array.from(state);
        [next[0], next[1]] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
        return next;
      },
    },
  ],
};

const cartpole = {
  viewBox: "-1.6 -1.25 3.2 1.7",
  draw(state, { action, low = -40, high = 40 } = {}) {
    const x = clamp(state[0], -1.3, 1.3);
    const tip = [x + Math.sin(state[2]), -0.1 - Math.cos(state[2])];
    const force = action ? (0.8 * action[0]) / Math.max(Math.abs(low), Math.abs(high)) : 0;
    const [tail, head] = [x + force - 0.09 * Math.sign(force), x + force];
    const arrow = `${head},0 ${tail},-0.06 ${tail},0.06`;
    return [
      svg("line", { class: "ground", x1: -1.6, x2: 1.6, y1: 0.14, y2: 0.14 }),
      svg("line", { class: "goal", x1: 0, x2: 0, y1: 0.14, y2: -1.2 }),
      svg("rect", { class: "body", x: x - 0.24, y: -0.1, width: 0.48, height: 0.2, rx: 0.04 }),
      svg("line", { class: "rod", x1: x, y1: -0.1, x2: tip[0], y2: tip[1] }),
      ...(Math.abs(force) > 0.02
        ? [
            svg("line", { class: "force", x1: x, x2: x + force, y1: 0, y2: 0 }),
            svg("polygon", { class: "force head", points: arrow }),
          ]
        : []),
    ];
  },
};

// Box2D's walker: sizes as in Gymnasium's bipedal_walker.py, divided by its scale of 30.
const HULL = [
  [-30, 9],
  [6, 9],
  [34, 1],
  [34, -8],
  [-30, -8],
].map(([x, y]) => [x / 30, y / 30]);
const [LEG, HIP, RANGE] = [34 / 30, -8 / 30, 160 / 30];

const walker = {
  viewBox: "-3 -1.6 7.2 4.7",
  hint: "The ground is drawn from the lidar readings. A filled foot touches the ground.",
  draw(state) {
    const turned = (angle, [x, y]) => [
      x * Math.cos(angle) - y * Math.sin(angle),
      x * Math.sin(angle) + y * Math.cos(angle),
    ];
    const down = ([x, y], angle) => [x + LEG * Math.sin(angle), y - LEG * Math.cos(angle)];
    const line = (from, to, name) => svg("line", { class: name, x1: from[0], y1: -from[1], x2: to[0], y2: -to[1] });
    const legs = [4, 9].flatMap((at, number) => {
      const hip = turned(state[0], [0, HIP]);
      const upper = state[0] + state[at];
      const lower = upper + state[at + 2] - 1;
      const knee = down(hip, upper);
      const foot = down(knee, lower);
      const touches = state[at + 4] > 0.5 ? "foot touching" : "foot";
      return [
        line(hip, knee, `leg leg-${number + 1}`),
        line(knee, foot, `leg lower leg-${number + 1}`),
        svg("circle", { class: touches, cx: foot[0], cy: -foot[1], r: 0.13 }),
      ];
    });
    const hits = Array.from({ length: 10 }, (_, i) => {
      const reach = clamp(state[14 + i], 0, 1) * RANGE;
      return [Math.sin((1.5 * i) / 10) * reach, -Math.cos((1.5 * i) / 10) * reach];
    });
    const rays = hits.map((hit) => line([0, 0], hit, "ray"));
    const seen = hits.filter((_, i) => state[14 + i] < 0.99);
    const ground = seen.length ? [[-3, seen[0][1]], ...seen] : [];
    return [
      ...rays,
      svg("polyline", { class: "ground", fill: "none", points: ground.map(([x, y]) => `${x},${-y}`).join(" ") }),
      ...legs.slice(3),
      svg("polygon", {
        class: "body",
        points: HULL.map((p) => turned(state[0], p))
          .map(([x, y]) => `${x},${-y}`)
          .join(" "),
      }),
      ...legs.slice(0, 3),
    ];
  },
};

/** A MuJoCo robot; dragging rotates the camera. */
function robot(spec) {
  const planar = spec.skipped === 1;
  const camera = planar ? { yaw: 0, pitch: 0 } : { yaw: 0.6, pitch: 0.45 };
  const project = ([x, y, z]) => {
    const [c, s] = [Math.cos(camera.yaw), Math.sin(camera.yaw)];
    const [across, away] = [x * c - y * s, x * s + y * c];
    return {
      x: across,
      y: -(z * Math.cos(camera.pitch) + away * Math.sin(camera.pitch)),
      depth: away * Math.cos(camera.pitch) - z * Math.sin(camera.pitch),
    };
  };
  const rest = segments(spec, spec.qpos.data.slice(spec.skipped)).flatMap((s) => [s.from, s.to]);
  const span = Math.max(
    ...[0, 1, 2].map((k) => Math.max(...rest.map((p) => p[k])) - Math.min(...rest.map((p) => p[k]))),
  );
  const size = Math.max(span, 1) * 1.6;
  const start = spec.qpos.data;
  const middle = planar ? [0, 0, size * 0.36] : [start[0], start[1], 0.45];
  const centre = project(middle);
  return {
    viewBox: `${centre.x - size / 2} ${centre.y - size * 0.48} ${size} ${size * 0.88}`,
    hint: planar ? "" : "Drag to rotate the view. The robot's position on the ground is not part of the observation.",
    camera: planar ? null : camera,
    draw(state) {
      const lines = [];
      const reach = size * 0.55;
      for (let k = -3; k <= 3; k++) {
        const at = (k / 3) * reach;
        const across = [project([at, -reach, 0]), project([at, reach, 0])];
        const along = [project([-reach, at, 0]), project([reach, at, 0])];
        for (const [p, q] of planar ? [along] : [across, along]) {
          lines.push(svg("line", { class: "floor", x1: p.x, y1: p.y, x2: q.x, y2: q.y }));
        }
      }
      const parts = segments(spec, state)
        .map((s) => ({ ...s, a: project(s.from), b: project(s.to) }))
        .sort((s, t) => t.a.depth + t.b.depth - s.a.depth - s.b.depth);
      const shapes = parts.map(({ a, b, radius, body }) =>
        svg("line", {
          class: `limb${body === 1 ? " torso" : ""}`,
          x1: a.x,
          y1: a.y,
          x2: b.x + 1e-6,
          y2: b.y,
          "stroke-width": 2 * radius,
        }),
      );
      // If a part would leave the picture (a robot on its back), the whole drawing shrinks.
      const beyond = parts.flatMap(({ a, b, radius }) =>
        [a, b].flatMap(({ x, y }) => [
          (Math.abs(x - centre.x) + radius) / (size * 0.5),
          (centre.y - y + radius) / (size * 0.48),
          (y - centre.y + radius) / (size * 0.4),
        ]),
      );
      const shrink = 1 / Math.max(1, ...beyond);
      const about = `translate(${centre.x} ${centre.y}) scale(${shrink}) translate(${-centre.x} ${-centre.y})`;
      const whole = svg("g", { transform: about });
      whole.append(...lines, ...shapes);
      return [whole];
    },
  };
}

/** The scene of a report's document, or null. */
export function makeScene(spec) {
  if (!spec) return null;
  return { pendulum, cartpole, walker }[spec.kind] ?? (spec.kind === "bodies" ? robot(spec) : null);
}

/** A drawing that can be redrawn: returns {element, show(state, options)}. */
export function drawing(scene, label) {
  const element = svg("svg", { viewBox: scene.viewBox, class: "scene", role: "img", "aria-label": label });
  return { element, show: (state, options) => element.replaceChildren(...scene.draw(state, options)) };
}

/** The position of a pointer event in the drawing's units. */
export function scenePoint(element, event) {
  const matrix = element.getScreenCTM().inverse();
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  return [point.x, point.y];
}
