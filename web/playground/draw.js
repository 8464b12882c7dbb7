// Pictures as SVG: bars of logits and coefficients, and curves over n. Colours are those of Okabe and Ito, which people with
// any colour vision can tell apart; lines also differ in their dashes.

export const colours = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"];
export const dashes = ["", "7 3", "2 3", "9 3 2 3", "1 4", "12 4"];

const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
export { escape as escapeText };

export function number(x) {
    if (!Number.isFinite(x)) return Number.isNaN(x) ? "–" : String(x);
    const size = Math.abs(x);
    return size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(2) : x.toPrecision(4);
}

const svg = (width, height, label, inner) =>
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(label)}">${inner}</svg>`;

// The largest value of each of at most `most` stretches of an array.
export function columns(values, most) {
    const count = Math.min(values.length, most), result = new Float64Array(count).fill(-Infinity);
    for (let i = 0; i < values.length; i++) {
        const c = Math.floor((i * count) / values.length);
        if (values[i] > result[c]) result[c] = values[i];
    }
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
const WIDTH = 960, HALF = 450, HEIGHT = 250, TOP = 24;

/** Logits on the left, a strip of coefficients for each policy on the right. */
export function drawBars(logits, results) {
    const shown = columns(logits, 256);
    const high = Math.max(1e-6, ...shown), low = Math.min(0, ...shown), scale = (HEIGHT - TOP - 20) / (high - low);
    const zero = TOP + high * scale;
    let inner = `<text x="0" y="14">logits${logits.length > 256 ? `, the largest of every ${Math.ceil(logits.length / 256)}` : ""}</text>`;
    inner += `<path d="${barPath(shown, 0, HALF, zero, scale)}" fill="#8a97a8"/><path d="M0 ${zero}h${HALF}" stroke="#8a97a8"/>`;
    if (logits.length <= DRAGGABLE) {
        const step = HALF / logits.length;
        logits.forEach((v, i) => {
            inner += `<rect class="handle" x="${i * step}" y="${TOP}" width="${step}" height="${HEIGHT - TOP}" tabindex="0" role="slider" ` +
                `aria-label="logit ${i + 1}" aria-valuenow="${v.toFixed(3)}" aria-valuemin="-50" aria-valuemax="50" data-i="${i}"/>`;
        });
    }
    const x = WIDTH - HALF, each = (HEIGHT - 4) / results.length;
    results.forEach((r, p) => {
        const top = Math.max(1e-12, r.stats.maxProb), bottom = (p + 1) * each;
        inner += `<text x="${x}" y="${p * each + 12}">${escape(r.name)}: largest ${number(r.stats.maxProb)}</text>`;
        inner += `<path d="${barPath(columns(r.weights, 256), x, HALF, bottom, (each - 18) / top)}" fill="${colours[p]}"/>`;
    });
    return { markup: svg(WIDTH, HEIGHT, "Logits and coefficients as bars", inner), low, scale, zero };
}

/** Largest weight over n, both logarithmic; `acts` is where adaptive temperature changes something. */
export function drawCurve(sizes, curves, n, acts) {
    const left = 56, right = 150, top = 20, bottom = 34, width = WIDTH - left - right, height = 300 - top - bottom;
    const first = Math.log2(sizes[0]), last = Math.log2(sizes[sizes.length - 1]), decades = 5.2;
    const x = (size) => left + ((Math.log2(size) - first) / (last - first)) * width;
    const y = (weight) => top + Math.min(1, -Math.log10(Math.max(weight, 1e-9)) / decades) * height;
    let inner = "";
    if (acts) inner += `<rect x="${x(acts[0])}" y="${top}" width="${Math.max(2, x(acts[1]) - x(acts[0]))}" height="${height}" fill="#e69f00" fill-opacity=".13"/>`;
    for (let d = 0; d <= 5; d++) inner += `<path d="M${left} ${y(10 ** -d)}h${width}" stroke="#8a97a8" stroke-opacity=".35"/><text x="${left - 8}" y="${y(10 ** -d) + 4}" text-anchor="end">${d ? `10⁻${"⁰¹²³⁴⁵"[d]}` : "1"}</text>`;
    for (let e = 1; e <= 17; e += 2) inner += `<text x="${x(2 ** e)}" y="${300 - 14}" text-anchor="middle">${(2 ** e).toLocaleString("en")}</text>`;
    inner += `<path d="M${x(n)} ${top}v${height}" stroke="#8a97a8" stroke-dasharray="3 3"/>`;
    const labels = [];
    curves.forEach((curve, p) => {
        const points = curve.stats.map((s, i) => `${x(sizes[i]).toFixed(1)} ${y(s.maxProb).toFixed(1)}`);
        inner += `<path d="M${points.join("L")}" fill="none" stroke="${colours[p]}" stroke-width="2.2" stroke-dasharray="${dashes[p]}"/>`;
        sizes.forEach((size, i) => {
            inner += `<circle cx="${x(size)}" cy="${y(curve.stats[i].maxProb)}" r="6" fill="transparent" data-tip="${escape(`${curve.name}, ${size.toLocaleString("en")} items: weight ${number(curve.stats[i].maxProb)}, β ${number(curve.stats[i].beta)}, H ${number(curve.stats[i].entropy)}`)}"/>`;
        });
        labels.push({ at: y(curve.stats[curve.stats.length - 1].maxProb) + 4, p, name: curve.name });
    });
    labels.sort((a, b) => a.at - b.at).forEach((l, i) => {
        if (i && l.at < labels[i - 1].at + 14) l.at = labels[i - 1].at + 14;
        inner += `<text x="${left + width + 6}" y="${l.at}" style="fill:${colours[l.p]};font-weight:600">${escape(l.name)}</text>`;
    });
    return svg(WIDTH, 300, "Largest weight over the number of items", inner);
}

/** Bars of one colour, with a tooltip each; `marked` stands out. */
export function drawRow(values, tips, colour, marked = -1) {
    const width = WIDTH, height = 170, top = Math.max(1e-12, ...values), step = width / values.length;
    let inner = "";
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
