// What all parts of the page share: elements by id, messages, tooltips.

export const byId = (id) => document.getElementById(id);

export function say(text, isProblem = false) {
    byId("status").textContent = text;
    byId("status").classList.toggle("problem", isProblem);
}

/** Runs something that may fail; the reason appears on the page. */
export function attempt(work, what) {
    const failed = (error) => say(`${what}: ${error.message}`, true);
    try {
        const result = work();
        return result instanceof Promise ? result.catch(failed) : result;
    } catch (error) {
        failed(error);
        return undefined;
    }
}

export function watchTips() {
    const tip = byId("tip");
    document.addEventListener("pointermove", (event) => {
        const text = event.target.dataset?.tip;
        tip.hidden = !text;
        if (!text) return;
        tip.textContent = text;
        tip.style.left = `${Math.min(event.clientX + 12, innerWidth - 300)}px`;
        tip.style.top = `${event.clientY + 14}px`;
    });
}

// A button that starts something repeated and stops it.
export function toggle(button, step) {
    let isOn = false;
    const run = () => {
        if (isOn && attempt(step, button.textContent) !== false) requestAnimationFrame(run);
        else set(false);
    };
    const set = (on) => {
        isOn = on;
        button.setAttribute("aria-pressed", String(on));
    };
    button.addEventListener("click", () => {
        set(!isOn);
        if (isOn) requestAnimationFrame(run);
    });
}
