// Node's ws against the demo: node ws_client.js HOST:PORT. Prints "ok NAME" or "FAIL NAME: why" for
// each test; started by with_node.py.
"use strict";

const { WebSocket } = require("ws");
const crypto = require("crypto");

const base = "ws://" + process.argv[2];
const LIMIT = 20000;

function open(path, options = {}, protocols = []) {
    return new Promise((done, failed) => {
        const socket = new WebSocket(base + path, protocols, options);
        socket.inbox = [];
        socket.takers = [];
        socket.on("message", (data, binary) => {
            const message = { data, binary };
            if (socket.takers.length) socket.takers.shift()(message);
            else socket.inbox.push(message);
        });
        socket.on("open", () => done(socket));
        socket.on("error", failed);
    });
}

function next(socket) {
    if (socket.inbox.length) return Promise.resolve(socket.inbox.shift());
    return new Promise((done) => socket.takers.push(done));
}

function closed(socket) {
    return new Promise((done) => socket.on("close", (code) => done(code)));
}

function equal(have, wanted, what) {
    if (have !== wanted) throw new Error(`${what}: ${wanted} wanted, came ${have}`);
}

async function leave(socket) {
    const end = closed(socket);
    socket.close(1000);
    equal(await end, 1000, "close code");
}

const tests = {
    async node_gets_texts_back() {
        const socket = await open("/echo");
        for (const text of ["", "hello", "grüße €, 𐍈", "x".repeat(126), "x".repeat(65536)]) {
            socket.send(text);
            const { data, binary } = await next(socket);
            equal(binary, false, "binary");
            equal(data.toString(), text, "echo");
        }
        await leave(socket);
    },
    async node_gets_a_megabyte_back() {
        const socket = await open("/echo");
        const bytes = crypto.randomBytes(1 << 20);
        socket.send(bytes);
        const { data, binary } = await next(socket);
        equal(binary, true, "binary");
        equal(bytes.equals(data), true, "the same bytes");
        await leave(socket);
    },
    async node_gets_fragments_back_as_one() {
        const socket = await open("/echo");
        socket.send("one ", { fin: false });
        socket.ping("between");
        socket.send("two ", { fin: false });
        socket.send("three", { fin: true });
        equal((await next(socket)).data.toString(), "one two three", "echo");
        await leave(socket);
    },
    async node_gets_thousands_of_messages_back_in_order() {
        const socket = await open("/echo");
        for (let i = 0; i < 5000; i++) socket.send("message " + i);
        for (let i = 0; i < 5000; i++) {
            equal((await next(socket)).data.toString(), "message " + i, "echo");
        }
        await leave(socket);
    },
    async node_gets_pongs() {
        const socket = await open("/echo");
        const pong = new Promise((done) => socket.on("pong", done));
        socket.ping("are you there");
        equal((await pong).toString(), "are you there", "pong");
        await leave(socket);
    },
    async node_gets_its_close_code_back() {
        for (const code of [1000, 1001, 3999, 4000]) {
            const socket = await open("/echo");
            const end = closed(socket);
            socket.close(code, "leaving");
            equal(await end, code, "close code");
        }
    },
    async node_is_told_its_subprotocol() {
        const socket = await open("/echo", {}, ["chat", "echo"]);
        equal(socket.protocol, "echo", "subprotocol");
        await leave(socket);
    },
    async node_and_the_server_compress_for_each_other() {
        const deflate = { perMessageDeflate: { threshold: 0, clientMaxWindowBits: 11 } };
        const socket = await open("/echo", deflate);
        equal(socket.extensions, "permessage-deflate", "extensions");
        for (const text of ["hello", "again and ".repeat(1000), "", "again and ".repeat(1000)]) {
            socket.send(text);
            equal((await next(socket)).data.toString(), text, "echo");
        }
        await leave(socket);
    },
    async node_refuses_compression() {
        const socket = await open("/echo", { perMessageDeflate: false });
        equal(socket.extensions, "", "extensions");
        socket.send("hello ".repeat(1000));
        equal((await next(socket)).data.toString(), "hello ".repeat(1000), "echo");
        await leave(socket);
    },
    async node_gets_no_websocket_where_there_is_none() {
        try {
            await open("/missing");
        } catch (error) {
            equal(error.message, "Unexpected server response: 404", "error");
            return;
        }
        throw new Error("/missing became a WebSocket");
    },
    async node_clients_chat() {
        const one = await open("/chat"), two = await open("/chat");
        one.send("hello");
        equal((await next(two)).data.toString(), "hello", "what the other gets");
        equal((await next(one)).data.toString(), "hello", "what the sender gets");
        await Promise.all([leave(one), leave(two)]);
    },
    async two_hundred_node_clients_are_served() {
        await Promise.all(Array.from({ length: 200 }, async (_, number) => {
            const socket = await open("/echo");
            for (let turn = 0; turn < 10; turn++) {
                socket.send(number + " " + turn);
                equal((await next(socket)).data.toString(), number + " " + turn, "echo");
            }
            await leave(socket);
        }));
    },
};

async function main() {
    for (const [name, test] of Object.entries(tests)) {
        let timer;
        const late = new Promise((_, failed) => {
            timer = setTimeout(() => failed(new Error("it took too long")), LIMIT);
        });
        try {
            await Promise.race([test(), late]);
            console.log("ok " + name);
        } catch (error) {
            console.log(`FAIL ${name}: ${error.message}`);
        }
        clearTimeout(timer);
    }
    process.exit(0);
}

main();
