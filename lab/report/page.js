"use strict";
// Figures of a report, for readers with scripts: hovering or arrow keys show numbers, and each policy has a switch. A figure is
// an <img> with an SVG picture of gnuplot's inside, which stays as it is without this script. What its panels mean is in the
// picture's <metadata> (lab/report/plot_panels.c).
(() => {
const show = (x) => {
    if (!Number.isFinite(x)) return "\u2013";
    const rounded = Number.isInteger(x) ? x : Number(x.toPrecision(4));
    return Math.abs(rounded) >= 1e7 || (rounded !== 0 && Math.abs(rounded) < 1e-3) ? rounded.toExponential() : rounded.toLocaleString("en", { maximumSignificantDigits: 7 });
};
const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;
document.body.append(tip);

function tell(text, x, y) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + tip.offsetHeight + 24 > innerHeight ? y - tip.offsetHeight - 10 : y + 16}px`;
}

// Where a point of the picture is on a panel's axes. gnuplot rounds to 1/100 of a pixel, which numbers of items, powers of two, must
// not show.
function along(from, to, isLog, share) {
    const value = isLog ? from * (to / from) ** share : from + (to - from) * share, power = 2 ** Math.round(Math.log2(value));
    return isLog && Math.abs(value / power - 1) < 5e-4 ? power : value;
}
function valueAt(panel, x, y) {
    const [x0, x1, y0, y1, left, right] = panel.axes;
    return [along(x0, x1, panel.logX, (x - left) / (right - left)), along(y0, y1, panel.logY, (panel.low - y) / (panel.low - panel.high))];
}

// Corners of the lines that a group draws; those of filled areas are no points of a curve.
function corners(group) {
    const found = [];
    for (const use of group.querySelectorAll("use")) {
        const at = /translate\(([-\d.]+),([-\d.]+)\)/.exec(use.getAttribute("transform"));
        if (at) found.push([Number(at[1]), Number(at[2])]);
    }
    if (found.length > 1) return found;
    for (const path of group.querySelectorAll("path[d]")) {
        if (path.getAttribute("stroke") === "none" || path.closest("[stroke=none]")) continue;
        for (const [, x, y] of path.getAttribute("d").matchAll(/[ML]\s*([-\d.]+),([-\d.]+)/g)) found.push([Number(x), Number(y)]);
    }
    return found;
}

// Everything that gnuplot drew for one entry of a plot, which may be several groups: its key is one of its own. Without a title
// the name is "".
function series(svg, panels) {
    const isWithin = ({ low, high, axes: [, , , , left, right] }, [x, y]) => x >= left - 2 && x <= right + 2 && y >= high - 2 && y <= low + 2;
    return [...svg.querySelectorAll("g[id^=gnuplot_plot_]")].map((group) => {
        const title = group.querySelector("title")?.textContent ?? "", letter = group.id.slice(-1);
        const nth = letter >= "a" && letter <= "z" ? letter.charCodeAt(0) - 97 : 0;
        const panel = panels[nth] ?? panels[0];
        const name = title === group.id || title.startsWith("gnuplot_plot_") ? "" : title;
        const points = panel?.axes ? corners(group).filter((point) => isWithin(panel, point)) : [];
        const coloured = [...group.querySelectorAll("use[color]"), ...group.querySelectorAll("path[stroke]")];
        const colourOf = (e) => e.getAttribute("color") ?? e.getAttribute("stroke");
        const drawn = coloured.find((e) => colourOf(e).startsWith("rgb")), colour = drawn ? colourOf(drawn) : "";
        const filled = [...group.querySelectorAll("path[fill],polygon[fill],g[fill]")].map((e) => e.getAttribute("fill"));
        return { name, panel, group, points, drawn, colour, fill: filled.find((c) => c.startsWith("rgb")) ?? "" };
    });
}

// An entry without a title, such as a shaded interval, belongs to the titled one that it is drawn for: the next of its panel, or
// the one before, of the same colour.
function ownersOf(all) {
    const owners = new Map();
    all.forEach((one, i) => {
        if (one.name) return;
        const alike = (other) => other?.name && other.panel === one.panel && [one.colour, one.fill].includes(other.colour) && other.colour;
        owners.set(one, alike(all[i + 1]) ? all[i + 1].name : alike(all[i - 1]) ? all[i - 1].name : all.find(alike)?.name ?? "");
    });
    return owners;
}

function cellAt(panel, x, y) {
    const [vx, vy] = valueAt(panel, x, y);
    if (panel.isMatrix) {
        const value = panel.cells[Math.round(vy)]?.[Math.round(vx)];
        return value === undefined ? "" : `${panel.title ? `${panel.title}; ` : ""}row ${Math.round(vy) + 1}, column ${Math.round(vx) + 1}: ${show(value)}`;
    }
    let nearest = null, least = Infinity;
    const width = Math.abs(panel.axes[1] - panel.axes[0]), height = Math.abs(panel.axes[3] - panel.axes[2]);
    for (const cell of panel.cells) {
        const away = Math.abs(cell[0] - vx) / width + Math.abs(cell[1] - vy) / height;
        if (away < least) [nearest, least] = [cell, away];
    }
    return nearest ? `${panel.x} ${show(nearest[0])}, ${panel.y} ${show(nearest[1])}: ${show(nearest[2])}` : "";
}

function open(figure) {
    const image = figure.querySelector("img");
    const bytes = Uint8Array.from(atob(image.src.slice(image.src.indexOf(",") + 1)), (c) => c.charCodeAt(0));
    const parsed = new DOMParser().parseFromString(new TextDecoder().decode(bytes), "image/svg+xml");
    const svg = parsed.documentElement, told = svg.querySelector("metadata");
    if (svg.nodeName !== "svg" || !told) return;
    const height = svg.viewBox.baseVal.height, panels = JSON.parse(told.textContent);
    for (const panel of panels) {
        if (panel.axes) [panel.low, panel.high] = [height - panel.axes[6], height - panel.axes[7]];
    }
    const host = document.createElement("div");
    host.className = "drawn";
    host.setAttribute("role", "img");
    host.setAttribute("aria-label", `${image.alt}. Arrow keys read its numbers.`);
    host.tabIndex = 0;
    const root = host.attachShadow({ mode: "open" });
    root.innerHTML = "<style>:host{position:relative}svg{display:block;width:100%;height:auto}[hidden]{display:none}</style>";
    svg.querySelector("title")?.remove(); // browsers would show it as a tooltip
    root.append(document.importNode(svg, true));
    const picture = root.querySelector("svg");
    image.replaceWith(host);
    figure.removeAttribute("tabindex");
    const all = series(picture, panels);
    for (const title of picture.querySelectorAll("g>title")) title.remove();
    return { figure, host, picture, panels, all };
}

function addSwitches({ figure, all }) {
    const names = [...new Set(all.map((one) => one.name).filter(Boolean))];
    if (names.length < 2) return;
    const owners = ownersOf(all), bar = document.createElement("div");
    bar.className = "switches";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Curves shown");
    for (const name of names) {
        const button = document.createElement("button"), own = all.filter((one) => (one.name || owners.get(one)) === name);
        button.type = "button";
        button.textContent = name;
        button.setAttribute("aria-pressed", "true");
        const drawn = own.map((one) => one.drawn).find(Boolean);
        const paint = () => { // as the curve is, which has other colours in the dark
            const style = drawn && getComputedStyle(drawn);
            button.style.borderLeftColor = style ? (drawn.hasAttribute("color") ? style.color : style.stroke) : "";
        };
        paint();
        matchMedia("(prefers-color-scheme:dark)").addEventListener("change", paint);
        button.addEventListener("click", () => {
            const isOn = button.getAttribute("aria-pressed") !== "true";
            button.setAttribute("aria-pressed", String(isOn));
            for (const one of own) one.group.toggleAttribute("hidden", !isOn);
        });
        bar.append(button);
    }
    figure.after(bar);
}

function addNumbers({ host, picture, panels, all }) {
    const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    for (const [name, value] of Object.entries({ r: 5, fill: "none", stroke: "#d55e00", "stroke-width": 2 })) dot.setAttribute(name, value);
    dot.toggleAttribute("hidden", true);
    picture.append(dot);
    const words = (one, [x, y]) => {
        const [vx, vy] = valueAt(one.panel, x, y);
        return `${one.name ? `${one.name} \u2013 ` : ""}${one.panel.x || "x"}: ${show(vx)}; ${one.panel.y || "y"}: ${show(vy)}`;
    };
    const place = ([x, y]) => {
        const at = new DOMPoint(x, y).matrixTransform(picture.getScreenCTM());
        return [at.x, at.y];
    };
    const mark = (point) => {
        dot.toggleAttribute("hidden", !point);
        if (point) [["cx", point[0]], ["cy", point[1]]].forEach(([name, value]) => dot.setAttribute(name, value));
    };
    const clear = () => { tell(""); mark(null); };

    host.addEventListener("pointermove", (event) => {
        const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
        const inside = panels.find((p) => p.axes && p.cells && x >= p.axes[4] && x <= p.axes[5] && y >= p.high && y <= p.low);
        if (inside) return tell(cellAt(inside, x, y), event.clientX, event.clientY);
        let best = null, point = null, least = 20 * 20;
        for (const one of all) {
            if (one.group.hasAttribute("hidden")) continue;
            for (const p of one.points) {
                const away = (p[0] - x) ** 2 + (p[1] - y) ** 2;
                if (away < least || (away === least && one.name && !best?.name)) [best, point, least] = [one, p, away];
            }
        }
        mark(point);
        return best ? tell(words(best, point), event.clientX, event.clientY) : tell("");
    });
    host.addEventListener("pointerleave", clear);
    host.addEventListener("blur", clear);

    let curve = 0, nth = 0;
    host.addEventListener("keydown", (event) => {
        const shown = all.filter((one) => one.points.length && !one.group.hasAttribute("hidden"));
        const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
        if (event.key === "Escape") return clear();
        if (!step || !shown.length) return undefined;
        event.preventDefault();
        curve = (Math.min(curve, shown.length - 1) + step[0] + shown.length) % shown.length;
        const { points } = shown[curve];
        nth = Math.max(0, Math.min(points.length - 1, nth + step[1]));
        mark(points[nth]);
        return tell(words(shown[curve], points[nth]), ...place(points[nth]));
    });
}

for (const figure of document.querySelectorAll("figure")) {
    if (!figure.querySelector("img[src^='data:image/svg+xml;base64,']")) continue;
    const opened = open(figure);
    if (!opened) continue;
    addSwitches(opened);
    addNumbers(opened);
}
document.body.dataset.ready = "yes";
})();
