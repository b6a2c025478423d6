-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
-- Neovim's own client for `dtilec lsp`: `dofile` this from init.lua. For Neovim 0.7 and later.
local M = {}

M.options = {
  -- The program, and what imports need: { "dtilec", "lsp", "-I", "kernels" }.
  command = { "dtilec", "lsp" },
  -- Milliseconds after the last change before proofs begin; `false` for none.
  proofs = { delayMs = 300 },
}

vim.api.nvim_create_autocmd({ "BufRead", "BufNewFile" }, {
  pattern = "*.dtile",
  callback = function(event) vim.bo[event.buf].filetype = "dtile" end,
})

-- Neovim leaves the verdict of the text before where there is none any more.
local function show_lenses(error, lenses, context, config)
  if not error and vim.tbl_isempty(lenses or {}) then
    if vim.lsp.codelens.clear then
      vim.lsp.codelens.clear(context.client_id, context.bufnr)
    else
      local space = vim.api.nvim_create_namespace("vim_lsp_codelens:" .. context.client_id)
      vim.api.nvim_buf_clear_namespace(context.bufnr, space, 0, -1)
    end
  end
  vim.lsp.codelens.on_codelens(error, lenses, context, config)
end

local function ask_lenses(buffer)
  vim.lsp.buf_request(buffer, "textDocument/codeLens",
    { textDocument = vim.lsp.util.make_text_document_params(buffer) }, show_lenses)
end

-- Neovim shows no related places: those in the file become hints there, others part of the message.
local function show_messages(error, result, context, config)
  local hints = {}
  for _, message in ipairs(result and result.diagnostics or {}) do
    for _, related in ipairs(message.relatedInformation or {}) do
      if related.location.uri == result.uri then
        table.insert(hints, {
          range = related.location.range,
          message = related.message,
          severity = vim.lsp.protocol.DiagnosticSeverity.Hint,
          source = message.source,
        })
      else
        message.message = ("%s\n%s:%d: %s"):format(message.message,
          vim.uri_to_fname(related.location.uri), related.location.range.start.line + 1,
          related.message)
      end
    end
  end
  if result then
    vim.list_extend(result.diagnostics, hints)
  end
  vim.lsp.handlers["textDocument/publishDiagnostics"](error, result, context, config)
  local buffer = result and vim.uri_to_bufnr(result.uri)
  if buffer and vim.api.nvim_buf_is_loaded(buffer) then
    ask_lenses(buffer)
  end
end

-- The server has new verdicts.
local function refresh_lenses(_, _, context)
  local client = vim.lsp.get_client_by_id(context.client_id)
  for _, buffer in ipairs(vim.lsp.get_buffers_by_client_id(client.id)) do
    ask_lenses(buffer)
  end
  return vim.NIL
end

local function configuration(buffer)
  local folder = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ":p:h")
  local git = vim.fn.finddir(".git", folder .. ";")
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  capabilities.workspace.codeLens = { refreshSupport = true }
  return {
    name = "dtile",
    cmd = M.options.command,
    root_dir = git ~= "" and vim.fn.fnamemodify(git, ":p:h:h") or folder,
    capabilities = capabilities,
    handlers = {
      ["textDocument/publishDiagnostics"] = show_messages,
      ["workspace/codeLens/refresh"] = refresh_lenses,
    },
    init_options = { proofs = M.options.proofs },
  }
end

-- By root folder, where vim.lsp.start (Neovim 0.8) does not keep them.
local clients = {}

function M.start(buffer)
  local config = configuration(buffer)
  if vim.lsp.start then
    return vim.lsp.start(config, { bufnr = buffer })
  end
  local known = clients[config.root_dir]
  if not known or vim.lsp.client_is_stopped(known) then
    clients[config.root_dir] = vim.lsp.start_client(config)
  end
  vim.lsp.buf_attach_client(buffer, clients[config.root_dir])
  return clients[config.root_dir]
end

vim.api.nvim_create_autocmd("FileType", {
  pattern = "dtile",
  callback = function(event) M.start(event.buf) end,
})

return M
