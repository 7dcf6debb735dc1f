"""Operations on images and volumes.

* grid_sampling: samples at computed places
* pooling: means and maxima of windows
* upsampling: nearest neighbours and polynomials
"""
