-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
-- Edits a program in a Neovim without a screen, and prints what the user would see.
-- Its arguments are globals: `dtilec`, `configuration` (editors/nvim/dtile.lua).
local dtile = dofile(configuration)
dtile.options.command = { dtilec, "lsp" }
dtile.options.proofs = { delayMs = 1 }

local function say(text)
  io.stdout:write(text .. "\n")
end

local function wait_for(what, condition)
  if not vim.wait(60000, condition, 20) then
    say("waited in vain for " .. what)
    vim.cmd("cquit 1")
  end
end

local function messages()
  return vim.diagnostic.get(0)
end

local function show()
  say("messages: " .. #messages())
  for _, each in ipairs(messages()) do
    say(("  %d:%d %s"):format(each.lnum + 1, each.col + 1, each.message))
  end
end

vim.cmd("edit " .. vim.fn.fnameescape(program))
say("filetype: " .. vim.bo.filetype)
wait_for("a client", function() return next(vim.lsp.buf_get_clients(0)) ~= nil end)
wait_for("a verdict", function()
  for _, lens in ipairs(vim.lsp.codelens.get(0)) do
    if lens.command and lens.command.title:match("^proved") then
      say("lens: line " .. lens.range.start.line + 1 .. ": proved")
      return true
    end
  end
  return false
end)
show()

-- What Neovim's code lenses have put behind lines.
local function shown_lenses()
  local marks = {}
  for name, space in pairs(vim.api.nvim_get_namespaces()) do
    if name:match("codelens") then
      vim.list_extend(marks, vim.api.nvim_buf_get_extmarks(0, space, 0, -1, {}))
    end
  end
  return marks
end
say("lenses shown: " .. #shown_lenses())

-- The newcomer deletes the `after`, and takes it back.
vim.cmd("%s/ after here//")
wait_for("a message", function() return #messages() > 0 end)
show()
wait_for("no verdict", function() return #shown_lenses() == 0 end)
say("lenses shown: " .. #shown_lenses())
vim.cmd("undo")
wait_for("no message", function() return #messages() == 0 end)
show()

-- Definition of `peer` behind the at sign; hover over `here`.
local function request(method, line, column)
  vim.api.nvim_win_set_cursor(0, { line, column })
  local params = vim.lsp.util.make_position_params()
  local answers = vim.lsp.buf_request_sync(0, method, params, 60000)
  for _, answer in pairs(answers) do
    return answer.result
  end
end
local line = vim.fn.search("notify(ready@peer", "w")
local definition = request("textDocument/definition", line, #"        notify(ready@p")
say("definition: line " .. definition.range.start.line + 1)
line = vim.fn.search("let here", "w")
say("hover: " .. vim.split(request("textDocument/hover", line, #"        let h").contents.value, "\n")[2])

-- Formatting through the editor's own command.
vim.cmd("%s/let peer = /let  peer=/")
if vim.lsp.buf.format then
  vim.lsp.buf.format({ timeout_ms = 60000 })
else
  vim.lsp.buf.formatting_sync(nil, 60000)
end
say("formatted: " .. vim.trim(vim.fn.getline(vim.fn.search("let *peer", "w"))))
vim.cmd("qall!")
