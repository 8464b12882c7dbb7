// Pictures as SVG: bars of logits and coefficients, and curves over n. Colours are those of Okabe and Ito, which people with
// any colour vision can tell apart; lines also differ in their dashes.

export const colours = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"];
export const dashes = ["", "7 3", "2 3", "9 3 2 3", "1 4", "12 4"];

const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
export { escape as escapeText };

export function number(x) {
    if (!Number.isFinite(x)) return Number.isNaN(x) ? "–" : String(x);
    const size = Math.abs(x);
    if (size >= 1e4 && size < 1e9) return Number(x.toPrecision(4)).toLocaleString("en");
    return size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(2) : x.toPrecision(4);
}

const svg = (width, height, label, inner, role = "img") =>
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="${role}" aria-label="${escape(label)}">${inner}</svg>`;

// The largest value of each of at most `most` stretches of an array, and its smallest value at all.
export function columns(values, most) {
    const count = Math.min(values.length, most), result = new Float64Array(count);
    let smallest = Infinity;
    for (let c = 0, i = 0; c < count; c++) {
        const end = Math.ceil(((c + 1) * values.length) / count);
        let largest = -Infinity;
        for (; i < end; i++) {
            const x = values[i];
            if (x > largest) largest = x;
            if (x < smallest) smallest = x;
        }
        result[c] = largest;
    }
    result.smallest = smallest;
    return result;
}

function barPath(values, x, width, zero, scale) {
    const step = width / values.length, gap = step > 3 ? step * 0.15 : 0;
    let path = "";
    values.forEach((v, i) => {
        const size = v * scale;
        path += `M${(x + i * step + gap).toFixed(1)} ${zero.toFixed(1)}v${(-size).toFixed(2)}h${(step - 2 * gap).toFixed(2)}v${size.toFixed(2)}z`;
    });
    return path;
}

export const DRAGGABLE = 64;
const NARROW = 600, HEIGHT = 250, TOP = 24, STRIP = 62;

/** The width to draw a picture of an element in, so that its text has the size of text. */
export const widthOf = (element) => Math.round(Math.min(960, Math.max(300, element.clientWidth || 960)));

/**
 * Logits, and a strip of coefficients for each policy: on the right, or below where the picture is narrow. Results get the
 * smallest weight on the way.
 */
export function drawBars(logits, results, width) {
    const isNarrow = width < NARROW, half = isNarrow ? width : (width - 60) / 2, stripsAt = isNarrow ? HEIGHT + 20 : 0;
    const height = Math.max(HEIGHT, stripsAt + STRIP * results.length + 4), each = (height - stripsAt - 4) / results.length;
    const shown = columns(logits, 256);
    const high = Math.max(1e-6, ...shown), low = Math.min(0, ...shown), scale = (HEIGHT - TOP - 20) / (high - low);
    const zero = TOP + high * scale;
    let inner = `<text x="0" y="14">logits${logits.length > 256 ? `, the largest of every ${Math.ceil(logits.length / 256)}` : ""}</text>`;
    inner += `<path d="${barPath(shown, 0, half, zero, scale)}" fill="#8a97a8"/><path d="M0 ${zero}h${half}" stroke="#8a97a8"/>`;
    if (logits.length <= DRAGGABLE) {
        const step = half / logits.length;
        logits.forEach((v, i) => {
            inner += `<rect class="handle" x="${i * step}" y="${TOP}" width="${step}" height="${HEIGHT - TOP}" tabindex="0" role="slider" ` +
                `aria-label="logit ${i + 1}" aria-valuenow="${v.toFixed(3)}" aria-valuemin="-50" aria-valuemax="50" data-i="${i}"/>`;
        });
    }
    const x = width - half;
    results.forEach((r, p) => {
        const top = Math.max(1e-12, r.stats.maxProb), at = stripsAt + p * each, bottom = at + each;
        inner += `<text x="${x}" y="${(at + 14).toFixed(1)}">${escape(r.name)}: largest ${number(r.stats.maxProb)}</text>`;
        const strip = columns(r.weights, 256);
        r.smallest = strip.smallest;
        inner += `<path d="${barPath(strip, x, half, bottom, (each - 24) / top)}" fill="${colours[p]}"/>`;
    });
    const role = logits.length <= DRAGGABLE ? "group" : "img"; // an image has no sliders within
    return { markup: svg(width, height, "Logits and coefficients as bars", inner, role), height, low, scale, zero, smallest: shown.smallest };
}

/** What the curve over n can show; logarithmic ones over five decades or up to the number of items. */
export const curveMeasures = {
    maxProb: { label: "largest weight", of: (s) => s.maxProb, from: () => 1e-5, to: () => 1.6, isLog: true },
    entropy: { label: "entropy", of: (s) => s.entropyAfter, from: () => 0, to: (n) => Math.log(n), ceiling: Math.log },
    effective: { label: "effective items, e^H", of: (s) => Math.exp(s.entropyAfter), from: () => 1, to: (n) => n, isLog: true, ceiling: (n) => n },
    beta: { label: "β", of: (s) => s.beta, from: (list) => Math.min(1, ...list), to: (n, list) => Math.max(2, ...list), isLog: true },
};

const superscript = (d) => String(d).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));

// Round numbers between two values: powers of ten where there are several, else of two, else steps.
function marksBetween(low, high, isLog) {
    if (!isLog) {
        const step = [0.5, 1, 2, 5].find((s) => (high - low) / s <= 7) ?? 10;
        return Array.from({ length: Math.floor(high / step) + 1 }, (_, i) => [i * step, String(i * step)]);
    }
    const base = high / low >= 100 ? 10 : 2, marks = [];
    for (let e = Math.ceil(Math.log(low) / Math.log(base) - 1e-9); base ** e <= high * (1 + 1e-9); e++) marks.push([base ** e, base === 2 || e === 0 ? String(base ** e) : `10${superscript(e)}`]);
    return marks;
}

/**
 * A measure over n, which is logarithmic; `acts` is where adaptive temperature changes something. Names stand beside the ends
 * of their curves, or below where the picture is narrow.
 */
export function drawCurve(sizes, curves, n, acts, whole, measure = curveMeasures.maxProb) {
    const isNarrow = whole < NARROW, left = 56, right = isNarrow ? 28 : 170, top = 20, height = 246, legend = 300;
    const width = whole - left - right, step = isNarrow ? 4 : 2;
    const first = Math.log2(sizes[0]), last = Math.log2(sizes[sizes.length - 1]);
    const known = curves.flatMap((c) => c.stats.map(measure.of)).filter((v) => Number.isFinite(v) && v > 0);
    const low = measure.from(known), high = measure.to(sizes[sizes.length - 1], known);
    const x = (size) => left + ((Math.log2(size) - first) / (last - first)) * width;
    const share = (v) => (measure.isLog ? Math.log(Math.max(v, 1e-300) / low) / Math.log(high / low) : (v - low) / (high - low));
    const y = (v) => top + (1 - Math.min(1, Math.max(0, share(v)))) * height;
    let inner = `<text x="0" y="12">${escape(measure.label)}</text>`;
    if (acts) inner += `<rect x="${x(acts[0])}" y="${top}" width="${Math.max(2, x(acts[1]) - x(acts[0]))}" height="${height}" fill="#e69f00" fill-opacity=".13"/>`;
    for (const [v, text] of marksBetween(low, high, measure.isLog)) inner += `<path d="M${left} ${y(v).toFixed(1)}h${width}" stroke="#8a97a8" stroke-opacity=".35"/><text x="${left - 8}" y="${(y(v) + 4).toFixed(1)}" text-anchor="end">${text}</text>`;
    for (let e = Math.ceil(first); e <= last + 1e-9; e += step) inner += `<text x="${x(2 ** e)}" y="${legend - 14}" text-anchor="middle">${(2 ** e).toLocaleString("en")}</text>`;
    if (measure.ceiling) inner += `<path d="M${sizes.map((s) => `${x(s).toFixed(1)} ${y(measure.ceiling(s)).toFixed(1)}`).join("L")}" fill="none" stroke="#8a97a8" stroke-dasharray="2 3"/><text x="${left + width - 4}" y="${y(measure.ceiling(sizes[sizes.length - 1])) + 16}" text-anchor="end">all items alike</text>`;
    inner += `<path d="M${x(n)} ${top}v${height}" stroke="#8a97a8" stroke-dasharray="3 3"/>`;
    const labels = [];
    curves.forEach((curve, p) => {
        const points = curve.stats.map((s, i) => [sizes[i], measure.of(s), s]).filter(([, v]) => Number.isFinite(v));
        if (!points.length) return;
        inner += `<path d="M${points.map(([size, v]) => `${x(size).toFixed(1)} ${y(v).toFixed(1)}`).join("L")}" fill="none" stroke="${colours[p]}" stroke-width="2.2" stroke-dasharray="${dashes[p]}"/>`;
        for (const [size, v, s] of points) {
            inner += `<circle cx="${x(size).toFixed(1)}" cy="${y(v).toFixed(1)}" r="6" fill="transparent" data-tip="${escape(`${curve.name}, ${size.toLocaleString("en")} items: weight ${number(s.maxProb)}, β ${number(s.beta)}, H ${number(s.entropyAfter)}`)}"/>`;
        }
        labels.push({ at: y(points[points.length - 1][1]) + 4, p, name: curve.name });
    });
    labels.sort((a, b) => a.at - b.at).forEach((l, i) => {
        if (i && l.at < labels[i - 1].at + 14) l.at = labels[i - 1].at + 14;
    });
    for (let i = labels.length - 1, most = top + height + 6; i >= 0; i--, most = labels[i + 1].at - 14) labels[i].at = Math.min(labels[i].at, most);
    labels.forEach((l, i) => {
        const [x0, y0] = isNarrow ? [left, legend + 16 * i + 12] : [left + width + 6, l.at];
        inner += `<path d="M${x0} ${(y0 - 4).toFixed(1)}h26" stroke="${colours[l.p]}" stroke-width="2.2" stroke-dasharray="${dashes[l.p]}"/>` +
            `<text x="${x0 + 32}" y="${y0.toFixed(1)}">${escape(l.name)}</text>`;
    });
    return svg(whole, legend + (isNarrow ? 16 * labels.length + 4 : 0), `${measure.label} over the number of items`, inner);
}

/** Bars of one colour, with a tooltip each, and that of the largest written above it; `marked` stands out. */
export function drawRow(values, tips, colour, width, marked = -1) {
    const height = 170, top = Math.max(1e-12, ...values), step = width / values.length, largest = values.indexOf(top);
    let inner = "";
    if (tips && largest >= 0) {
        const at = (largest + 0.425) * step, anchor = at < width / 4 ? "start" : at > (3 * width) / 4 ? "end" : "middle";
        inner += `<text x="${at.toFixed(1)}" y="13" text-anchor="${anchor}">${escape(tips[largest])}</text>`;
    }
    values.forEach((v, i) => {
        const size = (v / top) * (height - 20);
        inner += `<rect x="${(i * step).toFixed(2)}" y="${(height - size).toFixed(2)}" width="${Math.max(0.5, step * 0.85).toFixed(2)}" height="${size.toFixed(2)}" fill="${i === marked ? "#d55e00" : colour}"/>`;
        if (tips) inner += `<rect x="${(i * step).toFixed(2)}" y="0" width="${step.toFixed(2)}" height="${height}" fill="transparent" data-tip="${escape(tips[i])}"/>`;
    });
    return svg(width, height, "Weights", inner);
}

// viridis, for grids: even in lightness for every kind of colour vision.
const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
export function shade(share) {
    const at = Math.min(Math.max(share || 0, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
    const [r, g, b] = stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i)));
    return { background: `rgb(${r},${g},${b})`, ink: 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111" : "#fff" };
}

/** Downloads an SVG picture as it is, or as PNG. */
export async function save(picture, name, asPng) {
    const style = "<style>text{font:12px sans-serif;fill:#5a6675}.handle{fill:none}</style>";
    const text = picture.outerHTML.replace(/(<svg[^>]*>)/, `$1${style}<rect width="100%" height="100%" fill="#fff"/>`);
    let blob = new Blob([text], { type: "image/svg+xml" });
    if (asPng) {
        const image = new Image(), box = picture.viewBox.baseVal;
        image.width = 2 * box.width;
        image.height = 2 * box.height;
        image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
        await image.decode();
        const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
        canvas.getContext("2d").drawImage(image, 0, 0, image.width, image.height);
        blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    }
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${name}.${asPng ? "png" : "svg"}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
