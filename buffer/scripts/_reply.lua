-- Neither makes a key: a reply or an inbox that is gone stays gone. By pcall, since a refusal must not stop a script that has begun to write.
-- `spent`: the tokens that the text in `data` took.
local function mark(j, n, kind, data, spent)
  n = int(n)
  redis.pcall('XADD', P .. 'reply:' .. j.id, 'NOMKSTREAM', j.under .. '-' .. n, 'k', kind, 'n', n, 'd', data, 's', spent or '0')
end
-- What is told besides goes along in the same entry, so that its reader is woken once.
local function frame(j, n, kind, data, ...)
  redis.pcall('XADD', P .. 'inbox:' .. j.inbox, 'NOMKSTREAM', '*', 'id', j.id, 'f', j.under, 'n', int(n), 'k', kind, 'd', data, ...)
end
