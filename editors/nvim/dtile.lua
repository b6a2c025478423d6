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

local function ask_lenses(buffer)
  vim.lsp.buf_request(buffer, "textDocument/codeLens",
    { textDocument = vim.lsp.util.make_text_document_params(buffer) },
    vim.lsp.codelens.on_codelens)
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
    handlers = { ["workspace/codeLens/refresh"] = refresh_lenses },
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
