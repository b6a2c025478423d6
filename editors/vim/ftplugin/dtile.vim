" SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
" How Vim edits dtile: comments, indentation, :make and gq.
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1

setlocal comments=:///,://!,://
setlocal commentstring=//\ %s
setlocal formatoptions-=t formatoptions+=croql
setlocal shiftwidth=4 softtabstop=4 expandtab
setlocal cindent cinoptions=(0,Ws,m1,L0
setlocal makeprg=dtilec\ check\ %:S
setlocal errorformat=%f:%l:%c:\ %trror:\ %m,%f:%l:%c:\ %tarning:\ %m,%-G%.%#

let b:undo_ftplugin = 'setlocal comments< commentstring< formatoptions< shiftwidth< softtabstop<'
      \ . ' expandtab< cindent< cinoptions< makeprg< errorformat<'
