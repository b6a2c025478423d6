// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts `dtilec lsp` and hands the editor's questions to it.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

function makeClient() {
  const settings = vscode.workspace.getConfiguration("dtile");
  const importPaths = settings.get("importPaths", []);
  const server = {
    command: settings.get("path", "dtilec"),
    args: ["lsp", ...importPaths.flatMap((path) => ["-I", path])],
    transport: TransportKind.stdio,
  };
  return new LanguageClient("dtile", "dtile", server, {
    documentSelector: ["file", "untitled"].map((scheme) => ({ scheme, language: "dtile" })),
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.dtile") },
    initializationOptions: {
      proofs: settings.get("proofs.enabled", true)
        ? { delayMs: settings.get("proofs.delayMs", 300), work: settings.get("proofs.work", 5000000) }
        : false,
    },
  });
}

async function start() {
  client = makeClient();
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `dtilec does not start: ${error.message}. The setting dtile.path says where it is.`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("dtile.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) =>
      change.affectsConfiguration("dtile") ? restart() : undefined));
  await start();
}

module.exports = { activate, deactivate: stop };
