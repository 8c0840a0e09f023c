"""Instructions and flash that an exported action takes on an ARM Cortex-M, counted in QEMU.

    python benchmarks/microcontroller.py

Compiles exported headers with arm-none-eabi-gcc -O2 and runs them on the boards mps2-an386 (Cortex-M4 with a
single-precision FPU) and mps2-an385 (Cortex-M3, without FPU) of qemu-system-arm. `-icount shift=0` makes an instruction
one nanosecond of virtual time, which the board's 25 MHz timer measures. Instructions are not cycles: a Cortex-M4 takes
one cycle for most of them, more for memory, branches and divisions. Needs
apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from _provenance import write

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from controllers import made  # noqa: E402
from pages import run_page  # noqa: E402
from rsa2c import RSA2C  # noqa: E402
from rsa2c.trained import Trained  # noqa: E402

CALLS = 10
NANOSECONDS_PER_TICK = 40
BOARDS = {
    "Cortex-M4 with FPU": ("mps2-an386", "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard"),
    "Cortex-M3, no FPU": ("mps2-an385", "-mcpu=cortex-m3"),
}
PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include "controller.h"
typedef {real} real;
#define TIMER ((volatile uint32_t *)0xE000E010)
extern uint32_t stack_top;
extern void initialise_monitor_handles(void);
extern void _start(void);
static const real states[][RSA2C_FEATURES] = {{ {states} }};

int main(void)
{{
    real action[RSA2C_ACTIONS], sum = 0;
    initialise_monitor_handles();
    TIMER[1] = 0xFFFFFF;
    TIMER[2] = 0;
    TIMER[0] = 5;
    while (TIMER[2] == 0) {{}}
    const uint32_t before = TIMER[2];
    for (int n = 0; n < {calls}; n++) {{
        rsa2c_act(states[n], action);
        sum += action[0];
    }}
    const uint32_t after = TIMER[2];
    printf("%lu ticks, sum %.9g\\n", (unsigned long)(before - after), (double)sum);
    return 0;
}}

void reset(void)
{{
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* switch the FPU on */
    __asm volatile("dsb; isb");
    _start();
}}
__attribute__((section(".vectors"), used)) void *const vectors[] = {{&stack_top, (void *)reset}};
"""
LAYOUT = """
ENTRY(reset)
MEMORY
{
  FLASH (rx) : ORIGIN = 0x00000000, LENGTH = 4M
  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 4M
}
SECTIONS
{
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) KEEP(*(.init)) KEEP(*(.fini)) . = ALIGN(8); } > FLASH
  .ARM.exidx : { *(.ARM.exidx*) } > FLASH
  .data : { *(.data*) . = ALIGN(8); } > RAM
  .bss : { __bss_start__ = .; *(.bss*) *(COMMON) . = ALIGN(8); __bss_end__ = .; } > RAM
  end = .;
  __end__ = .;
  stack_top = ORIGIN(RAM) + LENGTH(RAM);
}
"""


def counted(agent: Trained, folder: Path, board: str, precision: str) -> tuple[int, int, int]:
    """Instructions of an action, bytes of the tables, and bytes of the code of `rsa2c_act` without libm."""
    machine, flags = BOARDS[board]
    exported = agent.export(folder / "controller.h", precision=precision)
    states = agent.background[:CALLS]
    rows = ", ".join("{" + ", ".join(f"{x!r}" for x in row) + "}" for row in states.tolist())
    real = "float" if precision == "float32" else "double"
    (folder / "main.c").write_text(PROGRAM.format(real=real, states=rows, calls=CALLS))
    (folder / "layout.ld").write_text(LAYOUT)
    small = f'#include "controller.h"\nvoid act(const {real} *s, {real} *a) {{ rsa2c_act(s, a); }}\n'
    (folder / "act.c").write_text(small)
    common = f"arm-none-eabi-gcc -std=gnu99 -mthumb {flags} -O2"
    shell(f"{common} main.c -T layout.ld --specs=rdimon.specs -lm -o main.elf", folder)
    shell(f"{common} -c act.c", folder)
    qemu = f"timeout 120 qemu-system-arm -M {machine} -nographic -monitor none -serial none -semihosting"
    told = shell(f"{qemu} -icount shift=0 -kernel main.elf", folder)
    found = re.search(r"(\d+) ticks, sum (\S+)", told)
    assert found is not None, told
    expected = agent.predict(states)[0][:, 0].sum()
    np.testing.assert_allclose(float(found[2]), expected, atol=1e-2 if real == "float" else 1e-5)
    sections = shell("arm-none-eabi-size -A act.o", folder)
    code = sum(int(size) for size in re.findall(r"^\.text\S*\s+(\d+)", sections, re.MULTILINE))
    return int(found[1]) * NANOSECONDS_PER_TICK // CALLS, exported.bytes, code


def shell(command: str, folder: Path) -> str:
    return subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True, text=True).stdout


def main() -> None:
    columns = ("policy", "processor", "precision", "tables, bytes", "code without libm, bytes",
               "instructions per action", "at 100 MHz, if each takes one cycle")  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agents = {
            "the motor of docs/controller.md": run_page(ROOT / "docs" / "controller.md", folder)["agent"],
            "Pendulum-v1, trained": RSA2C("Pendulum-v1", "rsa2c-kme", seed=0).learn(100_000),
            "the size of Hopper-v5": made(q=512, d=11, m=3),
        }
        for title, agent in agents.items():
            q, d, m = *agent.policy_mean.centres.shape, len(agent.action_names)
            for board in BOARDS:
                for precision in ("float32", "float64"):
                    count, tables, code = counted(agent, folder, board, precision)
                    time = f"{count / 100:,.0f} us" if count < 1e6 else f"{count / 1e5:,.1f} ms"
                    lines.append(
                        f"| {title} ({q} states, {d} features, {m} actions) | {board} | {precision} | {tables:,} | "
                        f"{code:,} | {count:,} | {time} |"
                    )
    counting = (
        f"Instructions are means over {CALLS} states with newlib's libm, counted by QEMU (`-icount shift=0`) on the "
        "boards mps2-an386 and mps2-an385. They are not cycles of a real board: loads, branches and divisions take "
        "more than one."
    )
    text = "\n".join([counting, "", *lines])
    print(text)
    print(write("microcontroller", "Exported policies on a microcontroller", text))


if __name__ == "__main__":
    main()
