// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names the methods of the protocol, and hands each to the file that answers it. All run on one
// thread: a request sees the texts as they were when it came.
#include "editors/lsp/server.h"

#include "editors/lsp/complete.h"
#include "editors/lsp/describe.h"
#include "editors/lsp/fixes.h"
#include "editors/lsp/message_input.h"
#include "editors/lsp/names.h"
#include "editors/lsp/outline.h"
#include "editors/lsp/proof_queue.h"
#include "editors/lsp/publisher.h"
#include "editors/lsp/semantic_tokens.h"
#include "editors/lsp/workspace.h"

namespace dtile::lsp {

namespace {

namespace json = llvm::json;
namespace protocol = llvm::lsp;
using Reply = protocol::Callback<json::Value>;

/// Most requests name a document and nothing else that is of interest.
using DocumentParams = protocol::DocumentSymbolParams;
using PositionParams = protocol::TextDocumentPositionParams;

struct RenameParams : PositionParams {
  std::string newName;
};

bool fromJSON(const json::Value &value, RenameParams &result, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return fromJSON(value, static_cast<PositionParams &>(result), path) && mapper &&
         mapper.map("newName", result.newName);
}

struct CodeActionParams {
  protocol::TextDocumentIdentifier textDocument;
  protocol::Range range;
};

bool fromJSON(const json::Value &value, CodeActionParams &result, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("textDocument", result.textDocument) &&
         mapper.map("range", result.range);
}

/// What a client says of itself and its workspace.
struct InitializeParams {
  std::vector<std::string> importPaths;
  /// Of the workspace.
  std::vector<std::string> folders;
  ProofOptions proofs;
  /// What the client asks for again when it is told.
  bool canRefreshLenses = false;
  bool canRefreshHints = false;
};

/// `"proofs": false`, or how long after the last change they begin, and how far they go.
void readProofOptions(const json::Value &value, ProofOptions &result) {
  result.areWanted = value.getAsBoolean().value_or(true);
  const json::Object *options = value.getAsObject();
  if (!options)
    return;
  constexpr int64_t kMaxDelay = 60'000;
  if (const auto delay = options->getInteger("delayMs"))
    result.delay = std::chrono::milliseconds(std::clamp<int64_t>(*delay, 0, kMaxDelay));
  if (const auto work = options->getInteger("work"))
    result.work = uint64_t(std::max<int64_t>(*work, 0));
}

bool canRefresh(const json::Object &params, llvm::StringRef feature) {
  const json::Object *at = params.getObject("capabilities");
  for (llvm::StringRef step : {llvm::StringRef("workspace"), feature})
    at = at ? at->getObject(step) : nullptr;
  return at && at->getBoolean("refreshSupport").value_or(false);
}

void addFolder(const json::Value *uri, std::vector<std::string> &folders) {
  if (!uri || !uri->getAsString())
    return;
  llvm::Expected<protocol::URIForFile> parsed = protocol::URIForFile::fromURI(*uri->getAsString());
  if (parsed)
    folders.push_back(pathOf(*parsed, ""));
  else
    llvm::consumeError(parsed.takeError());
}

bool fromJSON(const json::Value &value, InitializeParams &result, json::Path path) {
  json::ObjectMapper mapper(value, path);
  if (!mapper)
    return false;
  // Clients send what they like here; what is not understood is nothing.
  if (const json::Object *options = value.getAsObject()->getObject("initializationOptions")) {
    if (const json::Array *paths = options->getArray("importPaths"))
      for (const json::Value &each : *paths)
        if (const auto text = each.getAsString())
          result.importPaths.push_back(text->str());
    if (const json::Value *proofs = options->get("proofs"))
      readProofOptions(*proofs, result.proofs);
  }
  result.canRefreshLenses = canRefresh(*value.getAsObject(), "codeLens");
  result.canRefreshHints = canRefresh(*value.getAsObject(), "inlayHint");
  if (const json::Array *folders = value.getAsObject()->getArray("workspaceFolders")) {
    for (const json::Value &each : *folders)
      if (const json::Object *folder = each.getAsObject())
        addFolder(folder->get("uri"), result.folders);
  } else {
    addFolder(value.getAsObject()->get("rootUri"), result.folders);
  }
  return true;
}

/// Of a wait, adds how many notifies it waits for.
void addWaitCount(json::Value &hover, const Proofs &proofs) {
  json::Object *object = hover.getAsObject();
  if (!object)
    return;
  for (const json::Value &hint : proofs.hints) {
    const json::Value *call = hint.getAsObject()->get("data");
    if (!call || *call != *object->getObject("range")->get("start"))
      continue;
    json::Object &contents = *object->getObject("contents");
    contents["value"] = (contents.getString("value").value_or("") + "\n\nHere, " +
                         hint.getAsObject()->getString("label").value_or("") +
                         " of this launch, as the compiler has derived it.")
                            .str();
    return;
  }
}

class Server {
public:
  Server(const ServerOptions &options, int input, llvm::raw_ostream &output);
  bool run();

private:
  enum class Phase : uint8_t { New, Running, ShutDown };

  std::optional<Refusal> refuse(const json::Object &message);
  int idle();
  void publish(const std::string &path, const Analysis &analysis);
  void refreshClient();

  void onInitialize(const InitializeParams &params, Reply reply);
  void onShutdown(const protocol::NoParams &params, Reply reply);
  void onNothing(const protocol::NoParams &params) {}
  void onOpen(const protocol::DidOpenTextDocumentParams &params);
  void onChange(const protocol::DidChangeTextDocumentParams &params);
  void onClose(const protocol::DidCloseTextDocumentParams &params);
  void onFilesChanged(const protocol::NoParams &params) { workspace_.filesChanged(); }

  /// Answers by what is known of a document, with null where it is not open.
  template <typename Answer>
  void answer(const protocol::TextDocumentIdentifier &document, Reply reply, Answer make) {
    const auto analysis = workspace_.analysis(workspace_.pathOf(document.uri));
    if (!analysis)
      return reply(llvm::make_error<protocol::LSPError>("the document is not open",
                                                        protocol::ErrorCode::InvalidParams));
    reply(make(*analysis));
  }
  void answer(const PositionParams &params, Reply reply,
              json::Value (*make)(const Analysis &, protocol::Position)) {
    answer(params.textDocument, std::move(reply),
           [&](const Analysis &analysis) { return make(analysis, params.position); });
  }
  void onDocumentSymbol(const DocumentParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), documentSymbols);
  }
  void onFoldingRange(const DocumentParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), foldingRanges);
  }
  void onFormatting(const DocumentParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), formattingEdits);
  }
  void onSemanticTokens(const DocumentParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), semanticTokens);
  }
  void onDefinition(const PositionParams &params, Reply reply) {
    answer(params, std::move(reply), definitionAt);
  }
  void onHighlight(const PositionParams &params, Reply reply) {
    answer(params, std::move(reply), highlightsAt);
  }
  void onHover(const PositionParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), [&](const Analysis &analysis) {
      json::Value hover = hoverAt(analysis, params.position);
      if (const Proofs *known = proofs_.of(workspace_.pathOf(params.textDocument.uri), analysis))
        addWaitCount(hover, *known);
      return hover;
    });
  }
  void onSignature(const PositionParams &params, Reply reply) {
    answer(params, std::move(reply), signatureAt);
  }
  void onCompletion(const PositionParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), [&](const Analysis &analysis) {
      return completionsAt(analysis, params.position, workspace_.imports());
    });
  }
  void onReferences(const protocol::ReferenceParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), [&](const Analysis &analysis) {
      return referencesAt(workspace_, analysis, params.position, params.context.includeDeclaration);
    });
  }
  void onCodeLens(const DocumentParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), [&](const Analysis &analysis) {
      return proofs_.lenses(workspace_.pathOf(params.textDocument.uri), analysis);
    });
  }
  void onInlayHint(const DocumentParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), [&](const Analysis &analysis) {
      const Proofs *known = proofs_.of(workspace_.pathOf(params.textDocument.uri), analysis);
      return known ? known->hints : json::Array();
    });
  }
  void onCodeAction(const CodeActionParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), [&](const Analysis &analysis) {
      json::Array fixes = fixesOf(analysis, analysis.diagnostics);
      if (const Proofs *known = proofs_.of(workspace_.pathOf(params.textDocument.uri), analysis))
        for (const json::Value &fix : known->fixes)
          fixes.push_back(fix);
      return fixesAt(fixes, clientUri(params.textDocument.uri), params.range);
    });
  }
  void onPrepareRename(const PositionParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply),
           [&](const Analysis &analysis) { return prepareRename(analysis, params.position); });
  }
  void onRename(const RenameParams &params, Reply reply) {
    answer(params.textDocument, std::move(reply), [&](const Analysis &analysis) {
      return renameAt(workspace_, analysis, params.position, params.newName);
    });
  }

  std::string version_;
  Workspace workspace_;
  ProofQueue proofs_;
  protocol::OutgoingRequest<std::nullptr_t> refreshLenses_, refreshHints_;
  int64_t requests_ = 0;
  Phase phase_ = Phase::New;
  bool isExitAsked_ = false;
  MessageInput *input_;
  protocol::JSONTransport transport_;
  protocol::MessageHandler handler_;
  Publisher publisher_;
};

Server::Server(const ServerOptions &options, int input, llvm::raw_ostream &output)
    : version_(options.version), workspace_(options.sema), proofs_(options.prove),
      input_(new MessageInput(
          input, {rewriteUntitled, [this](const json::Object &message) { return refuse(message); },
                  [this](json::Value id, const Refusal &refusal) {
                    transport_.reply(std::move(id), llvm::make_error<protocol::LSPError>(
                                                        refusal.message, *refusal.code));
                  },
                  [this] { return idle(); }})),
      transport_(std::unique_ptr<protocol::JSONTransportInput>(input_), output),
      handler_(transport_), publisher_([this](json::Value params) {
        transport_.notify("textDocument/publishDiagnostics", std::move(params));
      }) {
  handler_.method("initialize", this, &Server::onInitialize);
  handler_.method("shutdown", this, &Server::onShutdown);
  handler_.notification("initialized", this, &Server::onNothing);
  handler_.notification("textDocument/didOpen", this, &Server::onOpen);
  handler_.notification("textDocument/didChange", this, &Server::onChange);
  handler_.notification("textDocument/didClose", this, &Server::onClose);
  handler_.notification("textDocument/didSave", this, &Server::onNothing);
  handler_.notification("workspace/didChangeWatchedFiles", this, &Server::onFilesChanged);
  handler_.method("textDocument/documentSymbol", this, &Server::onDocumentSymbol);
  handler_.method("textDocument/foldingRange", this, &Server::onFoldingRange);
  handler_.method("textDocument/formatting", this, &Server::onFormatting);
  handler_.method("textDocument/codeLens", this, &Server::onCodeLens);
  handler_.method("textDocument/inlayHint", this, &Server::onInlayHint);
  handler_.method("textDocument/codeAction", this, &Server::onCodeAction);
  handler_.method("textDocument/definition", this, &Server::onDefinition);
  handler_.method("textDocument/documentHighlight", this, &Server::onHighlight);
  handler_.method("textDocument/references", this, &Server::onReferences);
  handler_.method("textDocument/prepareRename", this, &Server::onPrepareRename);
  handler_.method("textDocument/rename", this, &Server::onRename);
  handler_.method("textDocument/hover", this, &Server::onHover);
  handler_.method("textDocument/completion", this, &Server::onCompletion);
  handler_.method("textDocument/signatureHelp", this, &Server::onSignature);
  handler_.method("textDocument/semanticTokens/full", this, &Server::onSemanticTokens);
}

bool Server::run() {
  if (llvm::Error error = transport_.run(handler_)) {
    protocol::Logger::error("{0}", llvm::toString(std::move(error)));
    return false;
  }
  return isExitAsked_ && phase_ == Phase::ShutDown;
}

std::optional<Refusal> Server::refuse(const json::Object &message) {
  const llvm::StringRef method = message.getString("method").value_or("");
  const bool isRequest = message.get("id") != nullptr;
  isExitAsked_ |= method == "exit";
  // A reply, or what ends the session in any phase.
  if (method.empty() || method == "exit")
    return std::nullopt;
  switch (phase_) {
  case Phase::New:
    if (method == "initialize")
      return std::nullopt;
    return Refusal{protocol::ErrorCode::ServerNotInitialized, "`initialize` goes first"};
  case Phase::Running:
    if (method == "initialize")
      return Refusal{protocol::ErrorCode::InvalidRequest, "`initialize` comes once"};
    // Nobody waits for the answer to a notification that is not known.
    return std::nullopt;
  case Phase::ShutDown:
    return Refusal{isRequest ? std::optional(protocol::ErrorCode::InvalidRequest) : std::nullopt,
                   "the server is shut down"};
  }
  return std::nullopt;
}

int Server::idle() {
  const std::string path = workspace_.checkNext();
  if (!path.empty()) {
    const auto analysis = workspace_.analysis(path);
    proofs_.add(path, analysis);
    publish(path, *analysis);
    return 0;
  }
  const std::string proved = proofs_.advance();
  if (!proved.empty()) {
    // What is there is of the text as it is: a change would have taken it out of the queue.
    publish(proved, *workspace_.analysis(proved));
    refreshClient();
  }
  input_->watch(proofs_.descriptor());
  return proofs_.millisecondsLeft();
}

void Server::publish(const std::string &path, const Analysis &analysis) {
  FileMessages messages = messagesOf(analysis, analysis.diagnostics);
  if (const Proofs *known = proofs_.of(path, analysis))
    for (const auto &[file, list] : known->messages)
      for (const json::Value &message : list)
        messages[file].push_back(message);
  publisher_.update(path, std::move(messages), workspace_.documents());
}

void Server::refreshClient() {
  for (auto *refresh : {&refreshLenses_, &refreshHints_})
    if (*refresh)
      (*refresh)(nullptr, "refresh-" + std::to_string(++requests_));
}

void Server::onInitialize(const InitializeParams &params, Reply reply) {
  phase_ = Phase::Running;
  workspace_.addImportPaths(params.importPaths);
  workspace_.setFolders(params.folders);
  proofs_.setOptions(params.proofs);
  const auto ignore = [](const json::Value &, llvm::Expected<protocol::NoParams> result) {
    if (!result)
      llvm::consumeError(result.takeError());
  };
  if (params.canRefreshLenses)
    refreshLenses_ = handler_.outgoingRequest<std::nullptr_t, protocol::NoParams>(
        "workspace/codeLens/refresh", ignore);
  if (params.canRefreshHints)
    refreshHints_ = handler_.outgoingRequest<std::nullptr_t, protocol::NoParams>(
        "workspace/inlayHint/refresh", ignore);
  json::Object capabilities{
      {"positionEncoding", "utf-16"},
      {"textDocumentSync",
       json::Object{{"openClose", true},
                    {"change", int(protocol::TextDocumentSyncKind::Incremental)}}},
      {"documentSymbolProvider", true},
      {"foldingRangeProvider", true},
      {"documentFormattingProvider", true},
      {"codeLensProvider", json::Object{{"resolveProvider", false}}},
      {"inlayHintProvider", true},
      {"codeActionProvider", json::Object{{"codeActionKinds", json::Array{"quickfix"}}}},
      {"definitionProvider", true},
      {"documentHighlightProvider", true},
      {"referencesProvider", true},
      {"renameProvider", json::Object{{"prepareProvider", true}}},
      {"hoverProvider", true},
      {"completionProvider", json::Object{{"triggerCharacters", json::Array{"."}}}},
      {"signatureHelpProvider", json::Object{{"triggerCharacters", json::Array{"(", ",", "<"}}}},
      {"semanticTokensProvider", json::Object{{"legend", semanticLegend()}, {"full", true}}},
  };
  reply(json::Object{{"capabilities", std::move(capabilities)},
                     {"serverInfo", json::Object{{"name", "dtilec"}, {"version", version_}}}});
}

void Server::onShutdown(const protocol::NoParams &params, Reply reply) {
  phase_ = Phase::ShutDown;
  reply(nullptr);
}

void Server::onOpen(const protocol::DidOpenTextDocumentParams &params) {
  workspace_.open(params.textDocument);
}

void Server::onChange(const protocol::DidChangeTextDocumentParams &params) {
  proofs_.remove(workspace_.pathOf(params.textDocument.uri));
  if (!workspace_.change(params))
    protocol::Logger::error("a document was changed that is not open: {0}",
                            clientUri(params.textDocument.uri));
}

void Server::onClose(const protocol::DidCloseTextDocumentParams &params) {
  const std::string path = workspace_.pathOf(params.textDocument.uri);
  if (!workspace_.close(path))
    return;
  proofs_.remove(path);
  publisher_.forget(path, clientUri(params.textDocument.uri), workspace_.documents());
}

} // namespace

bool serve(const ServerOptions &options, int input, llvm::raw_ostream &output) {
  protocol::Logger::setLogLevel(protocol::Logger::Level::Error);
  allowUntitled();
  return Server(options, input, output).run();
}

} // namespace dtile::lsp
