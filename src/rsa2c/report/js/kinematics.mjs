// Positions of the bodies of a MuJoCo model for given joint positions, as computed by mj_kinematics.

export function multiply([a, b, c, d], [e, f, g, h]) {
  return [
    a * e - b * f - c * g - d * h,
    a * f + b * e + c * h - d * g,
    a * g - b * h + c * e + d * f,
    a * h + b * g - c * f + d * e,
  ];
}

export function rotate([w, x, y, z], v) {
  const t = [2 * (y * v[2] - z * v[1]), 2 * (z * v[0] - x * v[2]), 2 * (x * v[1] - y * v[0])];
  return [
    v[0] + w * t[0] + y * t[2] - z * t[1],
    v[1] + w * t[1] + z * t[0] - x * t[2],
    v[2] + w * t[2] + x * t[1] - y * t[0],
  ];
}

const sum = (a, b) => a.map((x, i) => x + b[i]);
const difference = (a, b) => a.map((x, i) => x - b[i]);
const unit = (q) => {
  const length = Math.hypot(...q);
  return length > 0 ? q.map((x) => x / length) : [1, 0, 0, 0];
};

function about(axis, angle) {
  const [c, s] = [Math.cos(angle / 2), Math.sin(angle / 2)];
  return [c, ...axis.map((x) => x * s)];
}

/** Position and rotation of every body. */
export function bodyPlaces(bodies, qpos, reference) {
  const places = [];
  for (const body of bodies) {
    const parent = places[body.parent] ?? { position: [0, 0, 0], rotation: [1, 0, 0, 0] };
    let position = sum(parent.position, rotate(parent.rotation, body.position));
    let rotation = multiply(parent.rotation, body.rotation);
    for (const joint of body.joints) {
      const q = qpos.slice(joint.at, joint.at + 7);
      if (joint.kind === "free") {
        [position, rotation] = [q.slice(0, 3), unit(q.slice(3, 7))];
        continue;
      }
      const anchor = sum(position, rotate(rotation, joint.anchor));
      const change = q[0] - reference[joint.at];
      if (joint.kind === "slide") {
        position = sum(
          position,
          rotate(rotation, joint.axis).map((x) => x * change),
        );
        continue;
      }
      rotation = multiply(rotation, joint.kind === "ball" ? unit(q.slice(0, 4)) : about(joint.axis, change));
      position = difference(anchor, rotate(rotation, joint.anchor));
    }
    places.push({ position, rotation });
  }
  return places;
}

/** Every geom as a thick segment {from, to, radius, body}. */
export function segments(scene, state) {
  const qpos = Array.from(scene.qpos.data);
  for (let i = 0; i < scene.observed; i++) qpos[scene.skipped + i] = state[i];
  const places = bodyPlaces(scene.bodies, qpos, scene.reference.data);
  return scene.bodies.flatMap((body, number) =>
    body.geoms.map((geom) => {
      const { position, rotation } = places[number];
      const middle = sum(position, rotate(rotation, geom.position));
      const long = geom.kind === "capsule" ? geom.size[1] : 0;
      const half = rotate(multiply(rotation, geom.rotation), [0, 0, long]);
      return { from: difference(middle, half), to: sum(middle, half), radius: geom.size[0], body: number };
    }),
  );
}
