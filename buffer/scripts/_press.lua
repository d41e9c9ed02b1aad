-- A script whose first write takes no memory is carried out also when memory is full: what frees it again must get through.
call('DEL', P .. 'none')
