// Starts the page: the module and its data are part of it.
import { bind, start } from "../package/library.js";
import { startHead } from "./head.js";
import { Live } from "./live.js";
import { startModel } from "./model.js";
import { attempt, byId, say, watchTips } from "./page.js";
import { linkFields, startRow } from "./row.js";

const embedded = /*EMBEDDED*/ {};
const bytesOf = (text) => Uint8Array.from(atob(text ?? ""), (c) => c.charCodeAt(0));

attempt(async () => {
    const exports = await start(bytesOf(embedded.module));
    const whet = bind(exports), live = new Live(exports);
    byId("version").textContent = `${whet.version} (${whet.isa})`;
    watchTips();
    startModel(live, whet, bytesOf(embedded.model));
    startRow(whet);
    startHead(live, new Float32Array(bytesOf(embedded.head).buffer));
    linkFields();
    document.body.dataset.ready = "yes";
}, "the page cannot start").catch?.((error) => say(error.message, true));
